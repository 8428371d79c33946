// Workforces, created through the API, and their runs.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { expect } from 'vitest';
import { expectStatus, type Json } from './client.ts';
import { database, type Tenant } from './tenants.ts';

/** Creates a workforce, by default for leads with a step that adds a note. */
export async function newWorkforce(key: string, more: object = {}): Promise<Json> {
  const steps = [{ kind: 'add_note', content: 'Hello {{first_name}}' }];
  const body = { name: `Workforce ${randomUUID()}`, status: 'active', subject_types: ['lead'], steps, ...more };
  return (await expectStatus(201, 'POST', '/v1/workforces', { key, body })).body.data.workforce;
}

/**
 * Enrolls a record, a lead by default.
 * @returns the id of its run
 */
export async function enroll(key: string, workforce: Json, subjectId: string, type = 'lead'): Promise<string> {
  const body = { subject_type: type, subject_id: subjectId };
  const path = `/v1/workforces/${workforce.id}/enroll`;
  return (await expectStatus(202, 'POST', path, { key, body, idempotencyKey: true })).body.data.run_id;
}

export async function readRun(key: string, workforce: Json, runId: string): Promise<Json> {
  return (await expectStatus(200, 'GET', `/v1/workforces/${workforce.id}/runs/${runId}`, { key })).body.data.run;
}

/** Returns the run once its status matches. */
export async function runThatIs(status: RegExp, key: string, workforce: Json, runId: string): Promise<Json> {
  await expect.poll(async () => (await readRun(key, workforce, runId)).status).toMatch(status);
  return readRun(key, workforce, runId);
}

/** Makes a waiting run due. */
export async function passWait(runId: string): Promise<void> {
  await database()`update workforce_runs set due_at = now(), next_step_at = now() where id = ${runId} and ended_at is null`;
}

/**
 * Inserts a lead and its run in a workforce.
 * @returns their ids
 */
export async function arrangeRun(
  { companyId }: Pick<Tenant, 'companyId'>,
  steps: readonly Json[],
  due = new Date(),
): Promise<{ workforceId: string; leadId: string; runId: string }> {
  const [workforceId, leadId, runId] = [uuidv7(), uuidv7(), uuidv7()];
  const sql = database();
  await sql`
    insert into leads (company_id, test_mode, id, first_name, email, created_by_kind, created_by_id, created_at, updated_at)
    values (${companyId}, false, ${leadId}, 'Sara', 'sara@x.example', 'system', 'tests', now(), now())`;
  await sql`
    insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
    values (${companyId}, ${workforceId}, ${workforceId}, 'sequence', 'active', '{lead}', ${sql.json(steps)}, false, now(), now())`;
  await sql`
    insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position,
      next_step_at, due_at, attempts, created_by_kind, created_by_id, enrolled_at)
    values (${companyId}, false, ${runId}, ${workforceId}, 'queued', 'leads', ${leadId}, '{}', ${sql.json(steps)}, false, 0, ${due}, ${due}, 0, 'system',
      'tests', ${due})`;
  return { workforceId, leadId, runId };
}

/** Adds a row to each table of workforces in both modes, without work for jobs. */
export async function enrolled(tenant: Tenant): Promise<void> {
  const sql = database();
  for (const testMode of [false, true]) {
    const [workforceId, runId] = [uuidv7(), uuidv7()];
    await sql`
      insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
      values (${tenant.companyId}, ${workforceId}, ${workforceId}, 'sequence', 'active', '{lead}', '[]', false, now(), now())`;
    await sql`
      insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position, attempts,
        created_by_kind, created_by_id, enrolled_at, ended_at)
      values (${tenant.companyId}, ${testMode}, ${runId}, ${workforceId}, 'completed', 'leads', ${uuidv7()}, '{}', '[]', false, 1, 0, 'system', 'tests',
        now(), now())`;
    await sql`
      insert into workforce_run_steps (company_id, test_mode, run_id, position, status, at)
      values (${tenant.companyId}, ${testMode}, ${runId}, 0, 'done', now())`;
  }
}
