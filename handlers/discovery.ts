// What a program can ask instead of reading: error codes, scopes and limits.

import { keptHours } from '../db/idempotency.ts';
import { findQuota } from '../db/quota.ts';
import { type ErrorCode, errorCatalogue } from '../domain/error-catalogue.ts';
import { callsPerMonth, moduleState } from '../domain/plans.ts';
import { bodyLimits, filterLimits, maxBatchItems, maxPageSize, maxSortKeys } from '../domain/request-limits.ts';
import { addOnOfModule, customObjectActions, legacyScopes, moduleActions } from '../domain/scopes.ts';
import { notFound } from '../runtime/errors.ts';
import type { Handler } from '../runtime/handler.ts';

export const listErrorCodes: Handler<'listErrorCodes'> = async () => ({
  status: 200,
  data: {
    error_codes: Object.entries(errorCatalogue).map(([code, { status, others, meaning, retryable, action }]) => ({
      code: code as ErrorCode,
      statuses: [status, ...(others ?? [])],
      meaning,
      retryable,
      action,
    })),
  },
});

export const listScopes: Handler<'listScopes'> = async (call) => {
  const { objects } = await call.workspace();
  const { grants, modules } = call.caller;
  const custom = [...objects.keys()].filter((object) => object.startsWith('object:'));
  const actions = [...Object.entries(moduleActions), ...custom.map((object) => [object, customObjectActions] as const)];
  return {
    status: 200,
    data: {
      scopes: actions.flatMap(([module, offered]) =>
        offered.map((action) => ({
          scope: `${module}:${action}`,
          module,
          action,
          add_on: addOnOfModule[module] ?? null,
          module_state: moduleState(module, modules),
          granted: grants.allows(`${module}:${action}`),
        })),
      ),
      legacy_scopes: Object.entries(legacyScopes).map(([scope, grants]) => ({ scope, grants })),
    },
  };
};

export const getLimits: Handler<'getLimits'> = async ({ sql, caller, now }) => {
  const quota = await findQuota(sql, caller.companyId, callsPerMonth, now);
  if (!quota) throw notFound();
  return {
    status: 200,
    data: {
      limits: {
        rates: {
          per_minute_and_endpoint: caller.limits.perMinute,
          per_hour: caller.limits.perHour,
          workspace_per_minute: caller.limits.tenantPerMinute,
          workspace_per_day: caller.limits.tenantPerDay,
        },
        quota: {
          limit: quota.limit,
          used: quota.used,
          remaining: quota.limit === null ? null : Math.max(0, quota.limit - quota.used),
          period: { start: quota.monthStart.toISOString(), end: quota.monthEnd.toISOString() },
        },
        requests: {
          body_bytes: bodyLimits.bytes,
          json_depth: bodyLimits.depth,
          object_keys: bodyLimits.keys,
          page_size: maxPageSize,
          batch_items: maxBatchItems,
          sort_fields: maxSortKeys,
          filter_depth: filterLimits.depth,
          filter_conditions: filterLimits.conditions,
          filter_values: filterLimits.values,
          idempotency_hours: keptHours,
        },
      },
    },
  };
};
