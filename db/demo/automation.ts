// Workforces of the demo workspace, and runs for new leads, in test mode.
import type { DemoWorkforces } from '../../domain/demo/automation.ts';
import { insertRun, insertRunStep } from '../automation/workforce-runs.ts';
import { insertWorkforce } from '../automation/workforces.ts';
import type { Sql } from '../client/pool.ts';

const maker = { actor: { kind: 'system', id: 'system', name: 'Demo' }, userId: null } as const;

export async function insertWorkforces(sql: Sql, companyId: string, demo: DemoWorkforces): Promise<void> {
  const scope = { companyId, testMode: true };
  const { createdAt, ...workforce } = demo.workforce;
  const stops = { stopWhen: null, stopWhenReplied: true };
  await insertWorkforce(sql, companyId, {
    ...workforce,
    ...stops,
    kind: 'sequence',
    status: 'active',
    subjectTypes: ['lead'],
    createdAt,
    updatedAt: createdAt,
  });
  for (const { id, leadId, status, position, enrolledAt, endedAt } of demo.runs) {
    const next = endedAt ? null : new Date(enrolledAt.getTime() + 2 * 86_400_000);
    await insertRun(
      sql,
      scope,
      {
        id,
        workforceId: workforce.id,
        status,
        object: 'leads',
        recordId: leadId,
        context: {},
        steps: workforce.steps,
        ...stops,
        position,
        nextStepAt: next,
        dueAt: null,
        attempts: 0,
        triedSince: null,
        call: null,
        errorCode: null,
        errorMessage: null,
        enrolledAt,
        endedAt,
      },
      maker,
    );
    for (let done = 0; done < position; done += 1)
      await insertRunStep(sql, scope, id, {
        position: done,
        status: 'done',
        madeObject: null,
        madeId: null,
        reason: null,
        errorCode: null,
        errorMessage: null,
        at: enrolledAt,
      });
  }
}
