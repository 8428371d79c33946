// Combines the handlers of all areas.
// An operation without a handler, or a handler without an operation, does not compile.
import type { Handlers } from '../runtime/handler.ts';
import { reportMerged } from '../services/records/merged-records.ts';
import * as apiKeys from './access/api-keys.ts';
import * as auditLogs from './access/audit-logs.ts';
import * as accessExplanations from './access/explanations.ts';
import * as me from './access/me.ts';
import * as oauthGrants from './access/oauth-grants.ts';
import * as passwords from './access/passwords.ts';
import * as requests from './access/requests.ts';
import * as roles from './access/roles.ts';
import * as sessions from './access/sessions.ts';
import * as webhookDeliveries from './automation/webhook-deliveries.ts';
import * as webhookEvents from './automation/webhook-events.ts';
import * as webhooks from './automation/webhooks.ts';
import * as workforceRuns from './automation/workforce-runs.ts';
import * as workforces from './automation/workforces.ts';
import * as checkoutSessions from './billing/checkout-sessions.ts';
import * as invoices from './billing/invoices.ts';
import * as plans from './billing/plans.ts';
import * as portalSessions from './billing/portal-sessions.ts';
import * as subscription from './billing/subscription.ts';
import * as subscriptionPreviews from './billing/subscription-previews.ts';
import * as usage from './billing/usage.ts';
import * as campaignRuns from './messaging/campaign-runs.ts';
import * as campaigns from './messaging/campaigns.ts';
import * as doNotCall from './messaging/do-not-call.ts';
import * as messageDrafts from './messaging/drafts.ts';
import * as emailEngagement from './messaging/email-engagement.ts';
import * as emailSuppression from './messaging/email-suppression.ts';
import * as inbound from './messaging/inbound.ts';
import * as recordMessages from './messaging/messages.ts';
import * as phoneNumbers from './messaging/phone-numbers.ts';
import * as objectFields from './objects/object-fields.ts';
import * as objects from './objects/objects.ts';
import * as onboarding from './onboarding/onboarding.ts';
import * as testClock from './onboarding/test-clock.ts';
import * as testMode from './onboarding/test-mode.ts';
import * as orgStructure from './people/org-structure.ts';
import * as users from './people/users.ts';
import * as attachments from './records/attachments.ts';
import * as recordBatch from './records/batch.ts';
import * as recordBatchUpsert from './records/batch-upsert.ts';
import * as changeSets from './records/change-sets.ts';
import * as deletedRecords from './records/deleted-records.ts';
import * as recordDuplicates from './records/duplicates.ts';
import * as exports from './records/exports.ts';
import * as feed from './records/feed.ts';
import * as recordHistory from './records/history.ts';
import * as imports from './records/imports.ts';
import * as links from './records/links.ts';
import * as merges from './records/merges.ts';
import * as notes from './records/notes.ts';
import * as notifications from './records/notifications.ts';
import * as recordTags from './records/record-tags.ts';
import * as records from './records/records.ts';
import * as reverts from './records/reverts.ts';
import * as recordTasks from './records/tasks.ts';
import * as recordTimeline from './records/timeline.ts';
import * as recordUpsert from './records/upsert.ts';
import * as views from './records/views.ts';
import * as reports from './reports/reports.ts';
import * as savedReports from './reports/saved-reports.ts';
import * as search from './reports/search.ts';
import * as activities from './sales/activities.ts';
import * as customers from './sales/customers.ts';
import * as leadConversion from './sales/lead-conversion.ts';
import * as leads from './sales/leads.ts';
import * as recordActivities from './sales/record-activities.ts';
import * as statusMoves from './sales/status-moves.ts';
import * as schedulingAssignments from './scheduling/assignments.ts';
import * as bookings from './scheduling/bookings.ts';
import * as calendars from './scheduling/calendars.ts';
import * as schedulingPolicies from './scheduling/policies.ts';
import * as schedulingPools from './scheduling/pools.ts';
import * as reservations from './scheduling/reservations.ts';
import * as slots from './scheduling/slots.ts';
import * as userAvailability from './scheduling/user-availability.ts';
import * as workingHours from './scheduling/working-hours.ts';
import * as availability from './service/availability.ts';
import * as discovery from './service/discovery.ts';
import * as document from './service/document.ts';
import * as health from './service/health.ts';
import * as activityTypes from './settings/activity-types.ts';
import * as duplicateChecks from './settings/duplicate-checks.ts';
import * as linkTypes from './settings/link-types.ts';
import * as pipelines from './settings/pipelines.ts';
import * as slaPolicies from './settings/sla-policies.ts';
import * as sources from './settings/sources.ts';
import * as statuses from './settings/statuses.ts';
import * as tags from './settings/tags.ts';
import * as taskTypes from './settings/task-types.ts';

const plain = {
  ...accessExplanations,
  ...activities,
  ...activityTypes,
  ...apiKeys,
  ...attachments,
  ...auditLogs,
  ...requests,
  ...availability,
  ...bookings,
  ...checkoutSessions,
  ...customers,
  ...discovery,
  ...document,
  ...duplicateChecks,
  ...exports,
  ...changeSets,
  ...feed,
  ...health,
  ...invoices,
  ...leadConversion,
  ...leads,
  ...me,
  ...oauthGrants,
  ...deletedRecords,
  ...links,
  ...merges,
  ...notes,
  ...pipelines,
  ...recordTags,
  ...objectFields,
  ...objects,
  ...onboarding,
  ...orgStructure,
  ...passwords,
  ...plans,
  ...portalSessions,
  ...recordActivities,
  ...recordBatch,
  ...recordBatchUpsert,
  ...recordDuplicates,
  ...recordHistory,
  ...imports,
  ...campaignRuns,
  ...campaigns,
  ...workforces,
  ...workforceRuns,
  ...doNotCall,
  ...messageDrafts,
  ...emailSuppression,
  ...emailEngagement,
  ...inbound,
  ...recordMessages,
  ...phoneNumbers,
  ...recordTasks,
  ...recordTimeline,
  ...recordUpsert,
  ...records,
  ...reports,
  ...savedReports,
  ...reservations,
  ...notifications,
  ...reverts,
  ...roles,
  ...schedulingAssignments,
  ...schedulingPolicies,
  ...schedulingPools,
  ...search,
  ...sessions,
  ...linkTypes,
  ...slaPolicies,
  ...slots,
  ...sources,
  ...statusMoves,
  ...statuses,
  ...subscription,
  ...subscriptionPreviews,
  ...tags,
  ...taskTypes,
  ...testClock,
  ...testMode,
  ...usage,
  ...userAvailability,
  ...users,
  ...webhookDeliveries,
  ...webhookEvents,
  ...webhooks,
  ...views,
  ...workingHours,
  ...calendars,
} satisfies Handlers;

/** A record that was merged answers 404 with the record that it is part of now. */
export const handlers = {
  ...plain,
  mergeRecord: reportMerged(plain.mergeRecord),
  getRecord: reportMerged(plain.getRecord),
  updateRecord: reportMerged(plain.updateRecord),
  deleteRecord: reportMerged(plain.deleteRecord),
  listRecordMessages: reportMerged(plain.listRecordMessages),
  listAttachments: reportMerged(plain.listAttachments),
  createAttachment: reportMerged(plain.createAttachment),
  listRecordHistory: reportMerged(plain.listRecordHistory),
  listLinks: reportMerged(plain.listLinks),
  createLink: reportMerged(plain.createLink),
  deleteLink: reportMerged(plain.deleteLink),
  listNotes: reportMerged(plain.listNotes),
  createNote: reportMerged(plain.createNote),
  updateNote: reportMerged(plain.updateNote),
  deleteNote: reportMerged(plain.deleteNote),
  listRecordTags: reportMerged(plain.listRecordTags),
  createRecordTag: reportMerged(plain.createRecordTag),
  deleteRecordTag: reportMerged(plain.deleteRecordTag),
  listRecordTasks: reportMerged(plain.listRecordTasks),
  createRecordTask: reportMerged(plain.createRecordTask),
  listRecordTimeline: reportMerged(plain.listRecordTimeline),
  listRecordActivities: reportMerged(plain.listRecordActivities),
  convertLead: reportMerged(plain.convertLead, 'leads'),
  updateLeadStatus: reportMerged(plain.updateLeadStatus, 'leads'),
  updateDealStage: reportMerged(plain.updateDealStage, 'deals'),
  getCustomer: reportMerged(plain.getCustomer, 'customers'),
} satisfies Handlers;
