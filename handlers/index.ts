// Joins the areas. An operation without a handler, or a handler without an operation, does not compile.
import type { Handlers } from '../runtime/handler.ts';
import * as activities from './activities.ts';
import * as activityTypes from './activity-types.ts';
import * as apiKeys from './api-keys.ts';
import * as attachments from './attachments.ts';
import * as availability from './availability.ts';
import * as customers from './customers.ts';
import * as discovery from './discovery.ts';
import * as document from './document.ts';
import * as duplicateChecks from './duplicate-checks.ts';
import * as health from './health.ts';
import * as leadConversion from './lead-conversion.ts';
import * as leads from './leads.ts';
import * as me from './me.ts';
import * as notes from './notes.ts';
import * as objectFields from './object-fields.ts';
import * as objects from './objects.ts';
import * as onboarding from './onboarding.ts';
import * as orgStructure from './org-structure.ts';
import * as passwords from './passwords.ts';
import * as recordActivities from './record-activities.ts';
import * as recordBatch from './record-batch.ts';
import * as recordBatchUpsert from './record-batch-upsert.ts';
import * as recordDuplicates from './record-duplicates.ts';
import * as recordMessages from './record-messages.ts';
import * as recordTasks from './record-tasks.ts';
import * as recordUpsert from './record-upsert.ts';
import * as records from './records.ts';
import * as reports from './reports.ts';
import * as roles from './roles.ts';
import * as search from './search.ts';
import * as sessions from './sessions.ts';
import * as slaPolicies from './sla-policies.ts';
import * as sources from './sources.ts';
import * as statusMoves from './status-moves.ts';
import * as statuses from './statuses.ts';
import * as tags from './tags.ts';
import * as taskTypes from './task-types.ts';
import * as users from './users.ts';

export const handlers = {
  ...activities,
  ...activityTypes,
  ...apiKeys,
  ...attachments,
  ...discovery,
  ...customers,
  ...document,
  ...duplicateChecks,
  ...health,
  ...leads,
  ...leadConversion,
  ...availability,
  ...objectFields,
  ...objects,
  ...onboarding,
  ...orgStructure,
  ...passwords,
  ...recordBatch,
  ...recordBatchUpsert,
  ...recordDuplicates,
  ...recordUpsert,
  ...records,
  ...me,
  ...reports,
  ...roles,
  ...search,
  ...sessions,
  ...statusMoves,
  ...sources,
  ...statuses,
  ...tags,
  ...slaPolicies,
  ...users,
  ...notes,
  ...recordActivities,
  ...recordMessages,
  ...recordTasks,
  ...taskTypes,
} satisfies Handlers;
