// Writes without an Idempotency-Key: which calls with a 503 took effect, and when.
import { setTimeout as sleep } from 'node:timers/promises';
import { database, newTenant } from '../../support/tenants.ts';
import { send } from './writers.ts';

const accounts = '/v1/objects/accounts/records';

export interface Unkeyed {
  /** Calls that were answered with 503. */
  refused: number;
  /** Those that PostgreSQL committed before the 503, without delivering the response. */
  doneBefore: number;
  /** Those that PostgreSQL committed after the 503. */
  doneAfter: number;
}

/** Updates accounts without keys while an action runs. */
export async function unkeyedDuring(server: string, count: number, happens: () => Promise<void>): Promise<Unkeyed> {
  const { companyId, key } = await newTenant();
  /** The time of each 503, by request id. */
  const refused = new Map<string, number>();
  let finished = false;
  const create = async (index: number): Promise<string> => {
    const call = { method: 'POST', path: accounts, key: `unkeyed-${index}`, body: { name: 'Account' } };
    for (;;) {
      // The previous fault may not be over yet.
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
