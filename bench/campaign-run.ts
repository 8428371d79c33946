// P17: speed and memory of a campaign run over many records, started by a call.
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { request, sendOne } from './load.ts';
import type { Result } from './report.ts';
import { readUsage, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

const recipients = Number(process.env.CAMPAIGN_RECIPIENTS ?? 100_000);

export async function campaignRun(): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    await addLeads(workspace);
    const server = await startServer('ours', workspace.env);
    try {
      const ask = async (method: 'GET' | 'POST', path: string, body?: object): Promise<Answer> => {
        const headers = { 'x-api-key': workspace.key, 'idempotency-key': path.replaceAll('/', ':') };
        const answer = await sendOne(server.port, request(method, path, headers, body ? JSON.stringify(body) : ''));
        if (answer.status >= 300) throw new Error(`${method} ${path} was answered with ${answer.status}`);
        return JSON.parse(answer.body).data;
      };
      const resident = () => readUsage(server.pid)?.residentMegabytes ?? Number.NaN;
      const channels = [
        { channel_type: 'email', subject: 'For {{first_name}}', body: 'Hello {{first_name}} of {{city}}' },
      ];
      const { campaign } = await ask('POST', '/v1/campaigns', { name: 'Everybody', object: 'leads', channels });
      const before = resident();
      const began = performance.now();
      await ask('POST', `/v1/campaigns/${campaign.id}/runs`);
      let highest = before;
      let now: Answer;
      do {
        await sleep(50);
        highest = Math.max(highest, resident());
        now = await ask('GET', `/v1/campaigns/${campaign.id}`);
      } while (now.campaign.status !== 'completed');
      const seconds = (performance.now() - began) / 1000;
      const made = now.latest_runs[0]?.total ?? 0;
      if (made !== recipients) throw new Error(`${made} drafts were made for ${recipients} records`);
      return {
        name: 'campaign-run',
        figure: 'P17',
        what: `the run of a campaign over ${recipients} leads, asked about twenty times in a second`,
        settings: { recipients },
        sides: [],
        ratios: [],
        values: [
          { name: 'for a thousand drafts', value: (seconds / made) * 1e6, unit: 'ms', target: 500 },
          { name: 'memory more than before, at most', value: highest - before, unit: 'MB', target: 100 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

interface Answer {
  campaign: { id: string; status: string };
  latest_runs: { total: number }[];
}

async function addLeads({ bareEnv }: Workspace): Promise<void> {
  const sql = postgres(bareEnv.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
  await sql`
    insert into leads (company_id, test_mode, id, first_name, email, city, created_by_kind, created_by_id, created_at, updated_at)
    select ${bareEnv.COMPANY_ID ?? ''}, false, gen_random_uuid(), 'Lead ' || n, n || '@example.com', 'Berlin', 'system', 'bench', now(), now()
    from generate_series(1, ${recipients}::int) n`;
  await sql`update subscriptions set package_code = 'enterprise', status = 'active' where company_id = ${bareEnv.COMPANY_ID ?? ''}`;
  await sql`analyze leads`;
  await sql.end();
}
