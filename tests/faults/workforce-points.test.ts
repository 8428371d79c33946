// A server killed at each point of a workforce step: the step takes effect once.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { recordedEvents } from '../support/events.ts';
import { database, newTenant, type Tenant, useDatabase } from '../support/tenants.ts';
import { arrangeRun } from '../support/workforces.ts';
import { OwnServer } from './support/own-server.ts';
import { fatal, points, preamble, type Statement, statements, Traps, workforcePoints } from './support/points.ts';
import { FaultProxy, through } from './support/proxy.ts';
import { settingsFor } from './support/settings.ts';
import { untilAbandoned } from './support/until-abandoned.ts';

const traps = new Traps(statements);
let proxy: FaultProxy;
let server: OwnServer;
let url: string;
let tenant: Tenant;

// A separate database, because a server of another test file would take over the work.
beforeAll(async () => {
  url = await newDatabase();
  proxy = await FaultProxy.start(Number(new URL(url).port), traps.watch);
  server = await OwnServer.start(settingsFor(through(url, proxy), '.test-data'));
  await useDatabase(url);
  tenant = await newTenant();
  await database()`update subscriptions set add_ons = '{workforces}' where company_id = ${tenant.companyId}`;
});
afterAll(async () => {
  await server?.kill();
  await proxy?.close();
  await useDatabase(undefined);
  if (url) await dropDatabase(url);
});

/**
 * Statements of the call: from its preamble on, they are identifiable, and it writes to no other
 * tables.
 */
const isOfCall: readonly Statement[] = [preamble, 'audit row', 'event', 'stored response', 'commit'];
const cuts = [
  ...fatal(workforcePoints).map((point) => ({ ...point, during: 'the step' as const })),
  ...fatal(points)
    .filter(({ statement }) => isOfCall.includes(statement))
    .map((point) => ({ ...point, during: 'its call' as const })),
];

test.each(cuts)(
  'completes the run once if the server is killed in $during with $statement $moment',
  async ({ statement, moment, during }) => {
    const endpoint = during === 'its call' ? { endpoint: '/tasks' } : {};
    const act = (): void => void process.kill(server.pid, 'SIGKILL');
    const sprung = traps.set({ statement, moment, act, ...endpoint });
    const { leadId, runId, workforceId } = await arrangeRun(tenant, [
      { kind: 'create_task', title: 'Call {{first_name}}' },
      { kind: 'add_note', content: 'Called' },
    ]);
    await sprung;
    traps.clear();
    await server.kill();
    await untilAbandoned();
    await server.restart();
    const sql = database();
    // Ends the lease of the killed server.
    await sql`update workforce_runs set due_at = now() where id = ${runId} and ended_at is null`;
    const readStatus = async () => (await sql`select status from workforce_runs where id = ${runId}`)[0]?.status;
    await expect.poll(readStatus).toBe('completed');
    const [row] = await sql`
      select (select count(*)::int from tasks where record_id = ${leadId}) as tasks,
        (select count(*)::int from notes where record_id = ${leadId}) as notes,
        (select count(*)::int from workforce_run_steps where run_id = ${runId} and status = 'done') as steps,
        (select count(*)::int from audit_logs where actor_id = ${workforceId}) as audit,
        (select count(*)::int from ${recordedEvents(sql)} where actor ->> 'id' = ${workforceId}) as events`;
    expect(row).toEqual({ tasks: 1, notes: 1, steps: 2, audit: 2, events: 1 });
    const [made] = await sql`
      select t.title from workforce_run_steps s join tasks t on t.id = s.made_id where s.run_id = ${runId} and s.made_object = 'tasks'`;
    expect(made).toEqual({ title: 'Call Sara' });
  },
);
