// Joins the areas. An operation without a handler, or a handler without an operation, does not compile.
import type { Handlers } from '../runtime/handler.ts';
import * as activities from './activities.ts';
import * as activityTypes from './activity-types.ts';
import * as apiKeys from './api-keys.ts';
import * as availability from './availability.ts';
import * as customers from './customers.ts';
import * as discovery from './discovery.ts';
import * as document from './document.ts';
import * as health from './health.ts';
import * as leads from './leads.ts';
import * as me from './me.ts';
import * as objectFields from './object-fields.ts';
import * as objects from './objects.ts';
import * as onboarding from './onboarding.ts';
import * as orgStructure from './org-structure.ts';
import * as passwords from './passwords.ts';
import * as recordBatch from './record-batch.ts';
import * as records from './records.ts';
import * as roles from './roles.ts';
import * as sessions from './sessions.ts';
import * as slaPolicies from './sla-policies.ts';
import * as users from './users.ts';

export const handlers = {
  ...activities,
  ...activityTypes,
  ...apiKeys,
  ...discovery,
  ...customers,
  ...document,
  ...health,
  ...leads,
  ...availability,
  ...objectFields,
  ...objects,
  ...onboarding,
  ...orgStructure,
  ...passwords,
  ...recordBatch,
  ...records,
  ...me,
  ...roles,
  ...sessions,
  ...slaPolicies,
  ...users,
} satisfies Handlers;
