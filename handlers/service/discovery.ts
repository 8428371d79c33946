// Machine-readable documentation: changes of the API, error codes, scopes and limits.

import { findQuota } from '../../db/billing/quota.ts';
import { keptHours } from '../../db/client/idempotency.ts';
import { findSeats } from '../../db/people/users.ts';
import { addOnOfModule, customObjectActions, legacyScopes, moduleActions } from '../../domain/access/scopes.ts';
import { callsPerMonth, computeSeatAllowance, extraCalls, getModuleState } from '../../domain/billing/plans.ts';
import { refusedExtensions } from '../../domain/records/file-names.ts';
import { changelog } from '../../domain/service/changelog.ts';
import { type ErrorCode, errorCatalogue } from '../../domain/service/error-catalogue.ts';
import {
  bodyLimits,
  configurationLimits,
  filterLimits,
  headLimits,
  maxBatchItems,
  maxCounted,
  maxExpansions,
  maxPageSize,
  maxReportRows,
  maxSearchHits,
  maxSortKeys,
  reportsPerMinute,
  schedulingLimits,
  uploadLimits,
} from '../../domain/service/request-limits.ts';
import { orNotFound } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';

export const listChangelogEntries: Handler<'listChangelogEntries'> = async (call) => {
  const { rows, ...rest } = selectPage(call, ['changelog'], changelog, ({ id }) => id);
  return { status: 200, data: { changelog_entries: [...rows], ...rest } };
};

export const listErrorCodes: Handler<'listErrorCodes'> = async (call) => {
  const codes = Object.entries(errorCatalogue).map(([code, { status, others, meaning, retryable, action }]) => ({
    code: code as ErrorCode,
    statuses: [status, ...(others ?? [])],
    meaning,
    retryable,
    action,
  }));
  const { rows, ...rest } = selectPage(call, ['error codes'], codes, ({ code }) => code);
  return { status: 200, data: { error_codes: rows, ...rest } };
};

export const listScopes: Handler<'listScopes'> = async (call) => {
  const { objects } = await call.services.loadWorkspace();
  const { grants, modules } = call.caller;
  const custom = [...objects.keys()].filter((object) => object.startsWith('object:'));
  const actions = [...Object.entries(moduleActions), ...custom.map((object) => [object, customObjectActions] as const)];
  const scopes = actions.flatMap(([module, offered]) =>
    offered.map((action) => ({
      scope: `${module}:${action}`,
      module,
      action,
      add_on: addOnOfModule[module] ?? null,
      module_state: getModuleState(module, modules),
      granted: grants.allows(`${module}:${action}`),
    })),
  );
  const { rows, ...rest } = selectPage(call, ['scopes'], scopes, ({ scope }) => scope);
  const legacy = Object.entries(legacyScopes).map(([scope, grants]) => ({ scope, grants }));
  return { status: 200, data: { scopes: rows, legacy_scopes: legacy, ...rest } };
};

export const getLimits: Handler<'getLimits'> = async ({ caller, now, db: { sql } }) => {
  const [counted, seats] = await Promise.all([
    findQuota(sql, caller.companyId, { callsPerMonth, extraCalls }, now),
    findSeats(sql, caller.companyId),
  ]);
  const quota = orNotFound(counted);
  return {
    status: 200,
    data: {
      limits: {
        rates: {
          per_minute_and_endpoint: caller.limits.perMinute,
          per_hour: caller.limits.perHour,
          workspace_per_minute: caller.limits.tenantPerMinute,
          workspace_per_day: caller.limits.tenantPerDay,
          reports_per_minute: reportsPerMinute,
        },
        quota: {
          limit: quota.limit,
          used: quota.used,
          remaining: quota.limit === null ? null : Math.max(0, quota.limit - quota.used),
          period: { start: quota.monthStart.toISOString(), end: quota.monthEnd.toISOString() },
        },
        requests: {
          address_bytes: headLimits.addressBytes,
          header_bytes: headLimits.headerBytes,
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
          filter_relations: filterLimits.related,
          search_hits: maxSearchHits,
          report_rows: maxReportRows,
          scheduling_days: schedulingLimits.days,
          scheduling_users: schedulingLimits.users,
          idempotency_hours: keptHours,
        },
        uploads: {
          file_bytes: uploadLimits.bytes,
          least_bytes_in_ten_seconds: bodyLimits.bytes,
          refused_extensions: [...refusedExtensions],
        },
        workspace: {
          seats: computeSeatAllowance(seats.packageCode, seats.purchased),
          active_users: seats.used,
          active_api_keys: configurationLimits.activeApiKeys,
          custom_objects: configurationLimits.customObjects,
          fields_of_object: configurationLimits.fieldsOfObject,
          pipelines: configurationLimits.pipelines,
          statuses_of_object: configurationLimits.statusesOfObject,
          tags_of_object: configurationLimits.tagsOfObject,
          tag_conditions_of_object: configurationLimits.tagConditionsOfObject,
          sources: configurationLimits.sources,
          sla_policies: configurationLimits.slaPolicies,
          activity_types: configurationLimits.activityTypes,
          webhook_subscriptions: configurationLimits.webhooks,
          scheduling_policies: configurationLimits.schedulingPolicies,
          scheduling_pools: configurationLimits.schedulingPools,
        },
      },
    },
  };
};
