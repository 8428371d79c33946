// Writes without an Idempotency-Key: which of those answered with 503 were done, and when.
import { setTimeout as sleep } from 'node:timers/promises';
import { database, newTenant } from '../../support/tenants.ts';
import { send } from './writers.ts';

const accounts = '/v1/objects/accounts/records';

export interface Unkeyed {
  /** Calls that were answered with 503. */
  refused: number;
  /** Those of them that PostgreSQL had committed before, and whose answer it did not get out. */
  doneBefore: number;
  /** Those that it committed afterwards. */
  doneAfter: number;
}

/** Changes accounts without keys while something happens. */
export async function unkeyedDuring(server: string, count: number, happens: () => Promise<void>): Promise<Unkeyed> {
  const { companyId, key } = await newTenant();
  /** When each was answered, by its request. */
  const refused = new Map<string, number>();
  let finished = false;
  const create = async (index: number): Promise<string> => {
    const call = { method: 'POST', path: accounts, key: `unkeyed-${index}`, body: { name: 'Account' } };
    for (;;) {
      // The fault before this one may not be over yet.
      const { status, text } = await send(undefined, server, key, call);
      if (status === 201) return JSON.parse(text).data.record.id;
      await sleep(100);
    }
  };
  const write = async (id: string): Promise<void> => {
    for (let turn = 0; !finished; turn += 1) {
      const call = {
        method: 'PATCH',
        path: `${accounts}/${id}`,
        key: undefined,
        body: { description: `turn ${turn}` },
      };
      const answer = await send(undefined, server, key, call);
      if (answer.status !== 503) continue;
      refused.set(JSON.parse(answer.text).meta.request_id, Date.now());
      await sleep(10);
    }
  };
  const ids = await Promise.all(Array.from({ length: count }, (_, index) => create(index)));
  const writing = Promise.all(ids.map(write));
  await Promise.all([writing, happens().finally(() => (finished = true))]);
  const done = await database()<{ request_id: string; committed_at: Date }[]>`
    select request_id, pg_xact_commit_timestamp(xmin) as committed_at
    from audit_logs
    where company_id = ${companyId} and request_id = any(${[...refused.keys()]}::uuid[])`;
  const after = done.filter((row) => row.committed_at.getTime() > (refused.get(row.request_id) as number));
  return { refused: refused.size, doneBefore: done.length - after.length, doneAfter: after.length };
}
