// What a program can ask instead of reading: error codes, scopes and limits.

import { keptHours } from '../db/idempotency.ts';
import { findQuota } from '../db/quota.ts';
import { findSeats } from '../db/users.ts';
import { type ErrorCode, errorCatalogue } from '../domain/error-catalogue.ts';
import { refusedExtensions } from '../domain/file-names.ts';
import { callsPerMonth, moduleState, seatAllowance } from '../domain/plans.ts';
import {
  bodyLimits,
  configurationLimits,
  filterLimits,
  maxBatchItems,
  maxCounted,
  maxExpansions,
  maxPageSize,
  maxReportRows,
  maxSearchHits,
  maxSortKeys,
  uploadLimits,
} from '../domain/request-limits.ts';
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
  const [quota, seats] = await Promise.all([
    findQuota(sql, caller.companyId, callsPerMonth, now),
    findSeats(sql, caller.companyId),
  ]);
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
          expansions: maxExpansions,
          counted_records: maxCounted,
          filter_depth: filterLimits.depth,
          filter_conditions: filterLimits.conditions,
          filter_values: filterLimits.values,
          search_hits: maxSearchHits,
          report_rows: maxReportRows,
          idempotency_hours: keptHours,
        },
        uploads: {
          file_bytes: uploadLimits.bytes,
          least_bytes_in_ten_seconds: bodyLimits.bytes,
          refused_extensions: [...refusedExtensions],
        },
        workspace: {
          seats: seatAllowance(seats.packageCode, seats.purchased),
          active_users: seats.used,
          active_api_keys: configurationLimits.activeApiKeys,
          custom_objects: configurationLimits.customObjects,
          fields_of_object: configurationLimits.fieldsOfObject,
          statuses_of_object: configurationLimits.statusesOfObject,
          tags_of_object: configurationLimits.tagsOfObject,
          tag_conditions_of_object: configurationLimits.tagConditionsOfObject,
          sources: configurationLimits.sources,
          sla_policies: configurationLimits.slaPolicies,
          activity_types: configurationLimits.activityTypes,
        },
      },
    },
  };
};
