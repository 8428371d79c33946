// Writes without an Idempotency-Key: which of those that were answered with 503 were done nevertheless.
import { setTimeout as sleep } from 'node:timers/promises';
import { database, newTenant } from '../../support/tenants.ts';
import { send } from './writers.ts';

const accounts = '/v1/objects/accounts/records';

/** Changes accounts without keys while something happens. @returns how many calls had 503, and how many of those were done */
export async function unkeyedDuring(
  server: string,
  count: number,
  happens: () => Promise<void>,
): Promise<{ refused: number; done: number }> {
  const { companyId, key } = await newTenant();
  const refused: string[] = [];
  let finished = false;
  const write = async (index: number): Promise<void> => {
    const created = await send(undefined, server, key, {
      ...{ method: 'POST', path: accounts, key: `unkeyed-${index}` },
      body: { name: 'Account' },
    });
    const { id } = JSON.parse(created.text).data.record;
    for (let turn = 0; !finished; turn += 1) {
      const call = {
        method: 'PATCH',
        path: `${accounts}/${id}`,
        key: undefined,
        body: { description: `turn ${turn}` },
      };
      const answer = await send(undefined, server, key, call);
      if (answer.status !== 503) continue;
      refused.push(JSON.parse(answer.text).meta.request_id);
      await sleep(10);
    }
  };
  const writing = Array.from({ length: count }, (_, index) => write(index));
  await happens();
  finished = true;
  await Promise.all(writing);
  const done = await database()`
    select from audit_logs where company_id = ${companyId} and request_id = any(${refused}::uuid[])`;
  return { refused: refused.length, done: done.count };
}
