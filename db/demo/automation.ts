// What the demo workspace does for new leads, and those that are on their way, in test mode.
import type { DemoWorkforces } from '../../domain/demo/automation.ts';
import { insertRun, insertRunStep } from '../automation/workforce-runs.ts';
import { insertWorkforce } from '../automation/workforces.ts';
import type { Sql } from '../client/pool.ts';

const maker = { actor: { kind: 'system', id: 'system', name: 'Demo' }, userId: null } as const;

export async function insertWorkforces(sql: Sql, companyId: string, demo: DemoWorkforces): Promise<void> {
  const scope = { companyId, testMode: true };
  const { createdAt, ...workforce } = demo.workforce;
  const stops = { stop_when: null, stop_when_replied: true };
  await insertWorkforce(sql, companyId, {
    ...workforce,
    ...stops,
    kind: 'sequence',
    status: 'active',
    subject_types: ['lead'],
    created_at: createdAt,
    updated_at: createdAt,
  });
  for (const { id, leadId, status, position, enrolledAt, endedAt } of demo.runs) {
    const next = endedAt ? null : new Date(enrolledAt.getTime() + 2 * 86_400_000);
    await insertRun(
      sql,
      scope,
      {
        id,
        workforce_id: workforce.id,
        status,
        object: 'leads',
        record_id: leadId,
        context: {},
        steps: workforce.steps,
        ...stops,
        position,
        next_step_at: next,
        due_at: null,
        attempts: 0,
        tried_since: null,
        call: null,
        error_code: null,
        error_message: null,
        enrolled_at: enrolledAt,
        ended_at: endedAt,
      },
      maker,
    );
    for (let done = 0; done < position; done += 1)
      await insertRunStep(sql, scope, id, {
        position: done,
        status: 'done',
        made_object: null,
        made_id: null,
        reason: null,
        error_code: null,
        error_message: null,
        at: enrolledAt,
      });
  }
}
