// P24: the approval of a change set of 100 operations.
import postgres from 'postgres';
import { rowNames } from '../db/client/row-names.ts';
import { hashPassword } from '../runtime/credentials/passwords.ts';
import type { Result } from './report.ts';
import { quantile } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

/** Operations of a set: half of them create a record, and the others update one. */
const operations = 100;
const password = 'a password of the bench';

interface Answer {
  data: {
    change_set: { id: string; status: string; digest: string };
    record: { id: string };
    succeeded: { record: { id: string } }[];
  };
  access_token: string;
}

/** Measures sequential approvals; as many as there are rounds, and one before. */
export async function measureChangeSets({ rounds }: { rounds: number }): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const email = await openSignIn(workspace);
    const server = await startServer('ours', workspace.env);
    try {
      const send = async (path: string, headers: Record<string, string>, body: object): Promise<Answer> => {
        const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify(body),
        });
        const answer = (await response.json()) as Answer;
        if (!response.ok) throw new Error(JSON.stringify(answer));
        return answer;
      };
      const key = { 'x-api-key': workspace.key };
      const session = await send('/auth/v1/token?grant_type=password', {}, { email, password });
      const token = { authorization: `Bearer ${session.access_token}` };
      const proposals: number[] = [];
      const approvals: number[] = [];
      for (let round = -1; round < rounds; round += 1) {
        const set = { title: 'Accounts', operations: await buildOperations(round, send, key) };
        const begun = performance.now();
        const { change_set: proposed } = (await send('/v1/change-sets', key, set)).data;
        const asked = performance.now();
        const approval = { digest: proposed.digest };
        const { change_set: applied } = (await send(`/v1/change-sets/${proposed.id}/approve`, token, approval)).data;
        const ended = performance.now();
        if (applied.status !== 'applied') throw new Error(JSON.stringify(applied));
        if (round < 0) continue;
        proposals.push(asked - begun);
        approvals.push(ended - asked);
      }
      const describe = (name: string, times: number[], target?: number) => [
        { name: `${name}, median`, value: quantile(times, 0.5), unit: 'ms', target },
        { name: `${name}, slowest`, value: Math.max(...times), unit: 'ms', target },
      ];
      return {
        name: 'change-sets',
        figure: 'P24',
        what: `change sets of ${operations} operations, half creates and half updates of accounts`,
        settings: { operations, rounds },
        sides: [],
        ratios: [],
        values: [...describe('approval', approvals, 2000), ...describe('proposal', proposals)],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/** Gives the administrator of the workspace a password. @returns the email address to sign in with */
async function openSignIn({ env, bareEnv }: Workspace): Promise<string> {
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined, transform: rowNames });
  const [row] = await sql<{ email: string }[]>`
    update sign_ins set password_hash = ${await hashPassword(password)}
    where company_id = ${bareEnv.COMPANY_ID ?? ''}
    returning email`;
  await sql.end();
  if (!row) throw new Error('the workspace has no administrator');
  return row.email;
}

/** Creates the accounts that a set updates. @returns the operations of the set */
async function buildOperations(
  round: number,
  send: (path: string, headers: Record<string, string>, body: object) => Promise<Answer>,
  key: Record<string, string>,
): Promise<object[]> {
  const path = '/v1/objects/accounts/records';
  const names = Array.from({ length: operations / 2 }, (_, index) => `Account ${round} ${index}`);
  const headers = { ...key, 'idempotency-key': `accounts-of-${round}` };
  const { succeeded } = (
    await send(
      `${path}:batch`,
      headers,
      names.map((name) => ({ name })),
    )
  ).data;
  return succeeded.flatMap(({ record: { id } }, index) => [
    { method: 'PATCH', path: `${path}/${id}`, body: { city: 'Rome', phone: '+4930123456' } },
    { method: 'POST', path, body: { name: `Added ${round} ${index}`, city: 'Bonn' } },
  ]);
}
