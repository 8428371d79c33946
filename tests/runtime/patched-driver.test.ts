// The changes of our patch to the driver, tested on the driver itself. Each hunk names its test.
import { connect } from 'node:net';
import { afterEach, expect, inject, test } from 'vitest';
import { type Client, createClient, isPipelined, type Statement, setPipelined } from '../../db/client/pipeline.ts';

let client: Client | undefined;
afterEach(() => client?.end({ timeout: 0 }));

/** Opens a client, and records the bytes of each write to its socket. */
function open(): { client: Client; writes: Buffer[] } {
  const writes: Buffer[] = [];
  const socket = ({ host, port }: { host: string[]; port: number[] }) => {
    const opened = connect(port[0] as number, host[0]);
    const { write } = opened;
    const noting = (bytes: Buffer, ...more: never[]) => {
      writes.push(bytes);
      return write.call(opened, bytes, ...more);
    };
    return Object.assign(opened, { host: host[0], port: port[0], write: noting });
  };
  client = createClient(inject('databaseUrl'), { max: 1, prepare: true, onnotice: () => undefined, socket });
  return { client, writes };
}

/** Counts the protocol messages of a kind. */
function count(kind: string, bytes: Buffer): number {
  let found = 0;
  for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1))
    if (bytes[at] === kind.charCodeAt(0)) found += 1;
  return found;
}

const echo = (of: Client, value: string) => of.unsafe('select $1::text as value', [value], { prepare: true });

/**
 * Sends statements in one turn of the event loop.
 * @returns the outcome of each: its rows, or the code of its error
 */
function together(of: Client, statements: readonly (() => Statement<object[]>)[]): Promise<unknown[]> {
  setPipelined(of, true);
  const sent = statements.map((create) => create().execute());
  return Promise.all(
    sent.map((each) =>
      each.then(
        (rows) => [...rows],
        (error: { code: string }) => error.code,
      ),
    ),
  ).finally(() => setPipelined(of, false));
}

test('sends the statements of a turn in one write, with one Sync behind the last', async () => {
  const { client, writes } = open();
  await echo(client, 'prepared');
  expect(isPipelined(client)).toBe(false);
  writes.length = 0;
  const long = 'x'.repeat(2000);
  const answers = await together(client, [() => echo(client, long), () => echo(client, 'b'), () => echo(client, 'c')]);
  expect(answers).toEqual([[{ value: long }], [{ value: 'b' }], [{ value: 'c' }]]);
  expect(writes).toHaveLength(1);
  expect(count('S', writes[0] as Buffer)).toBe(1);
});

test('fails the statements behind a failed one, and none that is sent later', async () => {
  const { client } = open();
  const divide = (by: number) => client.unsafe('select 1 / $1::int as value', [by], { prepare: true });
  await divide(1);
  await echo(client, 'prepared');
  const answers = await together(client, [() => echo(client, 'a'), () => divide(0), () => echo(client, 'c')]);
  expect(answers).toEqual([[{ value: 'a' }], '22012', '25P02']);
  expect([...(await echo(client, 'later'))]).toEqual([{ value: 'later' }]);
});

test('does not retry a statement with an outdated plan if others were sent behind it', async () => {
  const { client } = open();
  await client.unsafe('create temporary table changed (a int)');
  const all = () => client.unsafe('select * from changed where $1::int = 1', [1], { prepare: true });
  await all();
  await echo(client, 'prepared');
  await client.unsafe('alter table changed add b int');
  // cached plan must not change result type
  expect(await together(client, [all, () => echo(client, 'b')])).toEqual(['0A000', '25P02']);
  expect([...(await all())]).toEqual([]);
  expect([...(await echo(client, 'later'))]).toEqual([{ value: 'later' }]);
});

test('opens a connection without asking for types, and sends and reads arrays', async () => {
  const { client, writes } = open();
  const [row] = await client`select ${['a', 'b']}::text[] as list`;
  expect(row?.list).toEqual(['a', 'b']);
  expect(Buffer.concat(writes).includes('pg_type')).toBe(false);
});
