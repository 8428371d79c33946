// Statements of the patched driver: only sent statements are promises.
import { expect, inject, test } from 'vitest';
import { inDatabase } from '../support/databases.ts';

test('a fragment is not a promise, and a statement becomes one when it is sent', async () => {
  await inDatabase(inject('databaseUrl'), async (sql) => {
    const piece = sql`1 + ${2}::int`;
    const statement = sql<{ sum: number }[]>`select ${piece} as sum`;
    expect([piece, statement].map((each) => (each as { promise?: unknown }).promise)).toEqual([null, null]);
    expect([...(await statement)]).toEqual([{ sum: 3 }]);
    expect((piece as { promise?: unknown }).promise).toBeNull();
    expect((statement as { promise?: unknown }).promise).toBeInstanceOf(Promise);
  });
});

test('a statement is sent once, even if it is awaited several times', async () => {
  await inDatabase(inject('databaseUrl'), async (sql) => {
    await sql`create temporary table sent (at timestamptz)`;
    const insertion = sql`insert into sent values (now())`.execute();
    await Promise.all([insertion, insertion.then(() => undefined), Promise.allSettled([insertion])]);
    await insertion;
    expect(await sql`select from sent`).toHaveLength(1);
  });
});

test('every kind of await on a failed statement rejects', async () => {
  await inDatabase(inject('databaseUrl'), async (sql) => {
    const failed = sql`select 1 / 0`;
    const ends: string[] = [];
    await expect(failed).rejects.toMatchObject({ code: '22012' });
    await failed.catch((error: { code: string }) => ends.push(error.code));
    await failed.finally(() => ends.push('finally')).catch(() => ends.push('caught'));
    await failed.then(undefined, () => ends.push('then'));
    expect(ends).toEqual(['22012', 'finally', 'caught', 'then']);
  });
});

test('an unsent statement can be canceled without an unhandled error', async () => {
  await inDatabase(inject('databaseUrl'), async (sql) => {
    sql`select 1 / 0`.cancel();
    expect([...(await sql`select 1 as one`)]).toEqual([{ one: 1 }]);
  });
});
