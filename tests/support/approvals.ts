// Decisions about drafts as the console makes them: in process, by a user, in a transaction.
import { randomUUID } from 'node:crypto';
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import { Pool } from '../../db/client/pool.ts';
import { parseGrants } from '../../domain/access/scopes.ts';
import { computeModules, getModuleState } from '../../domain/billing/plans.ts';
import type { Caller } from '../../runtime/caller.ts';
import { requireScope } from '../../runtime/credentials/authorization.ts';
import type { Change } from '../../runtime/handler.ts';
import type { Approving } from '../../services/messaging/draft-approvals.ts';
import type { Tenant } from './tenants.ts';

export interface PersonOptions {
  testMode?: boolean;
  scopes?: readonly string[];
  /** Another caller: a key, or an app in the user's name. */
  caller?: Partial<Caller>;
  packageCode?: string;
}

/**
 * Opens the console as the administrator of a tenant: `const people = openPeople(url); await
 * people.decide(tenant, (call) => approveDraft(call, id, hash))`.
 */
export function openPeople(url: string) {
  const shared = { url, prepare: true, spread: false, wait: 10_000, statementTimeout: 5000 };
  const pool = new Pool({ ...shared, role: 'crm_app', name: 'people', lanes: 2 });
  return {
    close: () => pool.close(1),
    decide<Result>(
      tenant: Tenant,
      work: (call: Approving) => Promise<Result>,
      options: PersonOptions = {},
    ): Promise<Result> {
      const caller = buildCaller(tenant, options);
      const now = new Date();
      return inTransaction(pool, caller, 5000, (sql, emit, note) =>
        work({
          caller,
          now,
          authorize: (scope) => requireScope(scope, caller, getModuleState),
          db: {
            sql,
            record(change) {
              note(buildAuditRow(change, caller, now));
              for (const event of buildEvents(change, caller, now)) emit(event);
            },
          },
        }),
      );
    },
  };
}

function buildCaller(tenant: Tenant, { testMode = false, scopes, caller, packageCode }: PersonOptions): Caller {
  return {
    kind: 'person',
    companyId: tenant.companyId,
    companyName: 'Tenant',
    testMode,
    actor: { kind: 'user', id: tenant.admin.id, name: 'Ada Admin' },
    grants: parseGrants(scopes ?? ['*']),
    scopes: [],
    reach: { kind: 'company' },
    expiresAt: null,
    userId: tenant.admin.id,
    sessionId: randomUUID(),
    mustChangePassword: false,
    modules: computeModules(packageCode ?? 'enterprise', [], []),
    limits: { perMinute: 1, perHour: 1, tenantPerMinute: 1, tenantPerDay: null },
    ip: '127.0.0.1',
    userAgent: null,
    requestId: randomUUID(),
    ...caller,
  };
}

function buildAuditRow(
  { action, object, recordId, changes, metadata }: Change,
  { actor, ...scope }: Caller,
  now: Date,
) {
  const about = { object: object ?? null, recordId: recordId ?? null };
  const row: AuditRow = buildSystemAuditRow(scope, 'tests', action, { ...about, changes: changes ?? null }, now);
  return { ...row, metadata: metadata ?? null, actorKind: actor.kind, actorId: actor.id };
}

const buildEvents = ({ event }: Change, { companyId, testMode, actor, requestId }: Caller, now: Date): EventRow[] =>
  event ? [{ companyId, testMode, event: event.name, occurredAt: now, actor, requestId, data: event.data }] : [];
