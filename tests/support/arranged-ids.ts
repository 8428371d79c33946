// Resources that a request needs in the database. A new operation adds its line here.
import { randomInt, randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { insertRequestBlocks } from '../../db/access/requests.ts';
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import type { RequestBlock } from '../../domain/access/request-blocks.ts';
import { newSessionId } from '../../runtime/credentials/secrets.ts';
import { RequestQueue } from '../../runtime/telemetry/request-queue.ts';
import { newGrant } from './access-tokens.ts';
import { subscribed } from './billing.ts';
import { expectStatus } from './client.ts';
import { newCampaign, newDraft, newPhoneNumber, someNumber } from './messaging.ts';
import {
  holdSome,
  later,
  newBooking,
  newPolicy,
  newPool,
  newReservation,
  nextMonth,
  someSlot,
  usualPool,
} from './scheduling.ts';
import { signIn } from './sign-in.ts';
import { adminPassword, database, newKey, newUser, type Tenant } from './tenants.ts';
import { fileForm } from './uploads.ts';
import { newDelivery, newWebhook, withoutDeliveries } from './webhooks.ts';

export type Mode = 'live' | 'test';

export interface ArrangedPath {
  /**
   * Creates something that exists for a tenant in a mode, new on each call.
   * @param body the body that the request will send, if known
   * @returns its path parameters
   */
  exists(tenant: Tenant, mode: Mode, body?: unknown): Promise<Record<string, string>>;
  /** Returns path parameters of something of another tenant, if they are not those of `exists`. */
  foreign?(other: Tenant, mode: Mode): Promise<Record<string, string>>;
  /** True for configuration, which live and test keys share. */
  shared?: true;
  /** The table of a record that can be deleted and that a key of another branch cannot see. */
  recordsOf?: 'leads' | 'deals' | 'customers' | 'accounts' | 'activities' | 'attachments';
}

const inObject: ArrangedPath = {
  exists: async () => ({ object: 'accounts' }),
  foreign: async (other) => ({ object: await newObject(other) }),
  shared: true,
};
const anObject: ArrangedPath = { exists: async (tenant) => ({ object: await newObject(tenant) }), shared: true };
const aLead: ArrangedPath = {
  exists: async (tenant, mode) => ({ id: await newRecord(tenant, mode, 'leads') }),
  recordsOf: 'leads',
};
const aList: ArrangedPath = { ...inObject, exists: async () => ({ object: 'leads' }) };
const onRecord: ArrangedPath = {
  exists: async (tenant, mode) => ({ object: 'accounts', id: await newRecord(tenant, mode, 'accounts') }),
  recordsOf: 'accounts',
};
const aDeletedAccount: ArrangedPath = {
  exists: async (tenant, mode) => {
    const id = await newRecord(tenant, mode, 'accounts');
    await expectStatus(200, 'DELETE', `/v1/objects/accounts/records/${id}`, { key: getKey(tenant, mode) });
    return { object: 'accounts', id };
  },
};
const newMerge = async (tenant: Tenant, mode: Mode): Promise<string> => {
  const [source, target] = [await newRecord(tenant, mode, 'accounts'), await newRecord(tenant, mode, 'accounts')];
  const path = `/v1/objects/accounts/records/${source}/merge`;
  const { body } = await expectStatus(200, 'POST', path, { key: getKey(tenant, mode), body: { into_id: target } });
  return body.data.merge.id;
};
const aMerge: ArrangedPath = { exists: async (tenant, mode) => ({ id: await newMerge(tenant, mode) }) };
/** @param content of its file, which is uploaded; null: it was cancelled */
const anImport = (content?: string | null): ArrangedPath => ({
  exists: async (tenant, mode) => {
    const key = getKey(tenant, mode);
    const { body } = await expectStatus(201, 'POST', '/v1/imports', { key, body: { object: 'accounts' } });
    const { id } = body.data.import;
    if (content === null) await expectStatus(202, 'POST', `/v1/imports/${id}/cancel`, { key });
    else if (content !== undefined) {
      // With another key, so that the upload counts in no limit that a test looks at.
      const other = await newKey(tenant, { environment: mode });
      await expectStatus(200, 'POST', `/v1/imports/${id}/parts?number=1`, { key: other, ...fileForm({ content }) });
    }
    return { id };
  },
});
/** An import without known records, so that its undo is complete immediately. */
const anEndedImport: ArrangedPath = {
  exists: async (tenant, mode) => {
    const found = await anImport().exists(tenant, mode);
    await database()`
      update imports set status = 'completed', created = 1, started_at = now(), completed_at = now()
      where company_id = ${tenant.companyId} and id = ${found.id ?? ''}`;
    return found;
  },
};
const aRevert: ArrangedPath = {
  exists: async (tenant, mode) => {
    const body = { request_id: randomUUID() };
    const answer = await expectStatus(201, 'POST', '/v1/reverts', { key: getKey(tenant, mode), body });
    return { id: answer.body.data.revert.id };
  },
};
const aChangeSet: ArrangedPath = {
  exists: async (tenant, mode) => {
    const path = `/v1/objects/accounts/records/${await newRecord(tenant, mode, 'accounts')}/notes`;
    const operations = [{ method: 'POST', path, body: { content: 'Call back' } }];
    const body = { title: 'Add a note', operations };
    const answer = await expectStatus(201, 'POST', '/v1/change-sets', { key: getKey(tenant, mode), body });
    const { id } = answer.body.data.change_set;
    // The digest in the example of the OpenAPI document.
    await database()`
      update change_sets set digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
      where company_id = ${tenant.companyId} and id = ${id}`;
    return { id };
  },
};
const aWebhook: ArrangedPath = {
  exists: async (tenant, mode) => ({ id: (await newWebhook(tenant, mode, withoutDeliveries)).id }),
};
const aBooking: ArrangedPath = {
  exists: async (tenant, mode) => {
    const [member] = (await usualPool(tenant)).member_ids;
    return { id: await newBooking(tenant, getKey(tenant, mode), member) };
  },
};
const aStartedBooking: ArrangedPath = {
  exists: async (tenant, mode) => {
    const [member] = (await usualPool(tenant)).member_ids;
    const id = await newBooking(tenant, getKey(tenant, mode), member);
    await database()`
      update bookings set start_at = now() - interval '1 minute', end_at = now() + interval '1 hour'
      where company_id = ${tenant.companyId} and id = ${id}`;
    return { id };
  },
};
const aReservation: ArrangedPath = {
  exists: async (tenant, mode) => ({ id: await newReservation(tenant, getKey(tenant, mode)) }),
};
const aDraft: ArrangedPath = {
  exists: async (tenant, mode) => ({ id: (await newDraft(getKey(tenant, mode))).id }),
};
/**
 * Returns a campaign without recipients, so that jobs find no work in it.
 * @param status its status
 */
const aCampaign = (status = 'draft'): ArrangedPath => ({
  exists: async (tenant, mode) => {
    const filter = { field: 'city', op: 'eq', value: 'Nowhere' };
    const { id } = await newCampaign(getKey(tenant, mode), { filter });
    await database()`update campaigns set status = ${status}, scheduled_at = '2036-01-01' where id = ${id}`;
    return { id };
  },
});
/** A campaign with an opened email. */
const anOpenedCampaign: ArrangedPath = {
  exists: async (tenant, mode) => {
    const campaign = await aCampaign().exists(tenant, mode);
    const email = { channel: 'email', to: 'sara@bluelake.example', subject: 'Offer' };
    const { id } = await newDraft(getKey(tenant, mode), email);
    await database()`update message_drafts set status = 'sent', campaign_id = ${campaign.id ?? ''} where id = ${id}`;
    await database()`
      insert into messages (company_id, test_mode, id, channel, direction, body, status, campaign_id, draft_id, occurred_at)
      values (${tenant.companyId}, ${mode === 'test'}, ${id}, 'email', 'outbound', 'Offer', 'opened', ${campaign.id ?? ''}, ${id}, now())`;
    return campaign;
  },
};
const aWorkforce: ArrangedPath = {
  exists: async (tenant) => ({ id: (await arrangedWorkforce(tenant)).id }),
  shared: true,
};
/**
 * Returns a run for a missing record, completed by default and not due, so that jobs find no work
 * in it.
 */
const aWorkforceRun = (status = 'completed'): ArrangedPath => ({
  exists: async (tenant, mode) => {
    const { id } = await arrangedWorkforce(tenant);
    const run = uuidv7();
    await database()`
      insert into workforce_runs (company_id, test_mode, id, workforce_id, status, object, record_id, context, steps, stop_when_replied, position, attempts,
        created_by_kind, created_by_id, enrolled_at, ended_at)
      values (${tenant.companyId}, ${mode === 'test'}, ${run}, ${id}, ${status}, 'leads', ${uuidv7()}, '{}', '[]', false, 0, 0, 'system', 'test', now(),
        ${status === 'completed' ? new Date() : null})`;
    return { id, run_id: run };
  },
});
/** That was cancelled, so that no job has work with it. */
const anExport: ArrangedPath = {
  exists: async (tenant, mode) => ({ id: await newExport(tenant, mode, { status: 'cancelled' }) }),
};
const aPhoneNumber: ArrangedPath = {
  exists: async (tenant, mode) => {
    await releaseNumbers(tenant);
    return { id: (await newPhoneNumber(getKey(tenant, mode))).id };
  },
};
const aPool: ArrangedPath = {
  exists: async (tenant) => ({ id: (await newPool(tenant, { members: (await usualPool(tenant)).member_ids })).id }),
  shared: true,
};
const aPolicy: ArrangedPath = { exists: async (tenant) => ({ id: (await newPolicy(tenant)).id }), shared: true };
const aSavedReport: ArrangedPath = {
  exists: async (tenant) => ({ id: await newShared(tenant, 'saved_reports') }),
  shared: true,
};
const aUser: ArrangedPath = { exists: async (tenant) => ({ id: (await newUser(tenant)).id }), shared: true };
const aKey: ArrangedPath = { exists: async (tenant) => ({ id: await newKeyId(tenant) }), shared: true };

/** Modules that operations need and that are bought separately. */
const boughtModules = ['scheduling', 'inbox', 'campaigns', 'workforces'];

/**
 * Returns a subscription that can be changed.
 * @param more other columns
 */
const aSubscription = (more: Record<string, unknown> = {}): ArrangedPath => ({
  exists: async (tenant, mode) => {
    await subscribed(tenant, mode, { seats: 1000, add_ons: boughtModules, ...more });
    return {};
  },
});

/** Returns well-formed values of path parameters that name nothing. All others are ids. */
export function plausible(path: string): Record<string, string> {
  return { object: path.startsWith('/v1/settings/') ? 'leads' : 'accounts', field: 'a_field' };
}

/** By path of the spec. */
export const arrangedPaths: Record<string, ArrangedPath> = {
  '/v1/objects/{object}': anObject,
  '/v1/objects/{object}/schema': anObject,
  '/v1/objects/{object}/fields': anObject,
  '/v1/objects/{object}/fields/{field}': {
    exists: async (tenant, _, body) => {
      const isUnique = (body as Example | undefined)?.unique === true;
      return { object: 'accounts', field: await newField(tenant, 'accounts', isUnique ? 'text' : 'select') };
    },
    shared: true,
  },
  '/v1/objects/{object}/records': inObject,
  '/v1/objects/{object}/records:upsert': inObject,
  '/v1/objects/{object}/records:batch': inObject,
  '/v1/objects/{object}/records:batch-update': inObject,
  '/v1/objects/{object}/records:batch-upsert': inObject,
  '/v1/objects/{object}/records:batch-delete': inObject,
  '/v1/objects/{object}/records:batch-get': inObject,
  '/v1/objects/{object}/records:check-duplicates': inObject,
  '/v1/objects/{object}/records/{id}': {
    exists: async (tenant, mode) => ({ object: 'accounts', id: await newRecord(tenant, mode, 'accounts') }),
    recordsOf: 'accounts',
  },
  '/v1/objects/{object}/records/{id}/merge': onRecord,
  '/v1/merges/{id}': aMerge,
  '/v1/merges/{id}/undo': aMerge,
  '/v1/objects/{object}/deleted-records': inObject,
  '/v1/objects/{object}/deleted-records/{id}': aDeletedAccount,
  '/v1/objects/{object}/deleted-records/{id}/restore': aDeletedAccount,
  '/v1/objects/{object}/records/{id}/links': {
    exists: async (tenant, mode) => ({ object: 'accounts', id: (await linkedAccount(tenant, mode)).id }),
    recordsOf: 'accounts',
  },
  '/v1/objects/{object}/records/{id}/links/{link_id}': {
    exists: async (tenant, mode) => ({ object: 'accounts', ...(await linkedAccount(tenant, mode)) }),
    recordsOf: 'accounts',
  },
  '/v1/objects/{object}/records/{id}/notes': onRecord,
  '/v1/objects/{object}/records/{id}/notes/{note_id}': {
    exists: async (tenant, mode) => ({ object: 'accounts', ...(await newNote(tenant, mode)) }),
    recordsOf: 'accounts',
  },
  '/v1/objects/{object}/records/{id}/tags': {
    exists: async (tenant, mode) => ({ object: 'leads', id: (await taggedLead(tenant, mode)).id }),
    recordsOf: 'leads',
  },
  '/v1/objects/{object}/records/{id}/tags/{tag_id}': {
    exists: async (tenant, mode) => ({ object: 'leads', ...(await taggedLead(tenant, mode)) }),
    recordsOf: 'leads',
  },
  '/v1/objects/{object}/records/{id}/tasks': onRecord,
  '/v1/objects/{object}/records/{id}/activities': onRecord,
  '/v1/objects/{object}/records/{id}/messages': onRecord,
  '/v1/objects/{object}/records/{id}/history': onRecord,
  '/v1/objects/{object}/records/{id}/timeline': onRecord,
  '/v1/objects/{object}/records/{id}/attachments': onRecord,
  '/v1/imports/{id}': anImport(),
  '/v1/imports/{id}/parts': anImport('name\nBlue Lake Trading\n'),
  '/v1/imports/{id}/start': anImport('name\nBlue Lake Trading\n'),
  '/v1/imports/{id}/cancel': anImport(),
  '/v1/imports/{id}/undo': anEndedImport,
  '/v1/imports/{id}/errors': anImport(),
  '/v1/imports/{id}/errors.csv': anImport(null),
  '/v1/change-sets/{id}': aChangeSet,
  '/v1/change-sets/{id}/withdraw': aChangeSet,
  '/v1/change-sets/{id}/approve': aChangeSet,
  '/v1/change-sets/{id}/reject': aChangeSet,
  '/v1/reverts/{id}': aRevert,
  '/v1/reverts/{id}/apply': aRevert,
  '/v1/attachments/{id}': {
    exists: async (tenant, mode) => ({ id: await newAttachment(tenant, mode) }),
    recordsOf: 'attachments',
  },
  // Always the same for a tenant and mode, because a link is valid for one attachment.
  '/v1/requests/{id}': { exists: async (tenant, mode) => ({ id: await newLoggedRequest(tenant, mode) }) },
  '/v1/exports/{id}': anExport,
  '/v1/exports/{id}/cancel': {
    // Due in some years, so that no job has work with it.
    exists: async (tenant, mode) => ({ id: await newExport(tenant, mode, { claimed_until: new Date('2036-01-01') }) }),
  },
  '/v1/exports/{id}/content': { exists: async (tenant) => ({ id: (await getExportLink(tenant)).id }), shared: true },
  '/v1/attachments/{id}/content': { exists: async (tenant) => ({ id: (await getLink(tenant)).id }), shared: true },
  '/v1/customers/{id}': {
    exists: async (tenant, mode) => ({ id: await newRecord(tenant, mode, 'customers') }),
    recordsOf: 'customers',
  },
  '/v1/activities/{id}': {
    exists: async (tenant, mode) => ({ id: await newActivity(tenant, mode) }),
    recordsOf: 'activities',
  },
  '/v1/leads/{id}/status': aLead,
  '/v1/leads/{id}/convert': aLead,
  '/v1/deals/{id}/stage': {
    exists: async (tenant, mode) => ({ id: await newDeal(tenant, mode) }),
    recordsOf: 'deals',
  },
  '/v1/settings/activity-types/{id}': {
    exists: async (tenant) => ({ id: await newActivityType(tenant) }),
    shared: true,
  },
  '/v1/settings/statuses/{object}': aList,
  '/v1/settings/statuses/{object}/{id}': {
    exists: async (tenant) => ({
      object: 'leads',
      id: await newListItem(tenant, 'statuses', { object: 'leads', order_position: 9 }),
    }),
    shared: true,
  },
  '/v1/settings/pipelines/{id}': {
    exists: async (tenant) => ({ id: await someOtherPipeline(tenant) }),
    shared: true,
  },
  '/v1/settings/tags/{object}': aList,
  '/v1/settings/tags/{object}/{id}': {
    exists: async (tenant) => ({ object: 'leads', id: await newListItem(tenant, 'tags', { object: 'leads' }) }),
    shared: true,
  },
  '/v1/link-types/{id}': {
    exists: async (tenant) => ({ id: await newLinkType(tenant, `type_${randomUUID().slice(0, 8)}`) }),
    shared: true,
  },
  '/v1/settings/sources/{id}': {
    exists: async (tenant) => ({ id: await newListItem(tenant, 'sources') }),
    shared: true,
  },
  '/v1/views/{id}': { exists: async (tenant) => ({ id: await newShared(tenant, 'saved_views') }), shared: true },
  '/v1/reports/saved/{id}': aSavedReport,
  '/v1/reports/saved/{id}/results': aSavedReport,
  '/v1/settings/duplicate-check/{object}': aList,
  '/v1/settings/sla-policies/{id}': {
    exists: async (tenant) => ({ id: await newSlaPolicy(tenant) }),
    shared: true,
  },
  '/v1/api-keys/{id}': aKey,
  '/v1/api-keys/{id}/revoke': aKey,
  '/v1/api-keys/{id}/rotate': aKey,
  '/v1/api-keys/{id}/usage': aKey,
  '/v1/oauth-grants/{id}': { exists: async (tenant) => ({ id: (await newGrant(tenant)).id }), shared: true },
  '/v1/users/{id}': aUser,
  '/v1/users/{id}/working-hours': aUser,
  '/v1/users/{id}/calendar': { exists: async (tenant) => ({ id: await newCalendar(tenant) }), shared: true },
  '/v1/scheduling/reservations/{id}': aReservation,
  '/v1/scheduling/reservations/{id}/extend': aReservation,
  '/v1/bookings/{id}': aBooking,
  '/v1/bookings/{id}/reschedule': aBooking,
  '/v1/bookings/{id}/cancel': aBooking,
  '/v1/bookings/{id}/no-show': aStartedBooking,
  '/v1/messages/drafts/{id}': aDraft,
  '/v1/messages/drafts/{id}/withdraw': aDraft,
  '/v1/campaigns/{id}': anOpenedCampaign,
  '/v1/campaigns/{id}/schedule': aCampaign(),
  '/v1/campaigns/{id}/pause': aCampaign('scheduled'),
  '/v1/campaigns/{id}/resume': aCampaign('paused'),
  '/v1/campaigns/{id}/cancel': aCampaign(),
  '/v1/campaigns/{id}/runs': aCampaign(),
  '/v1/phone-numbers': {
    exists: async (tenant) => {
      await releaseNumbers(tenant);
      return {};
    },
  },
  '/v1/workforces': {
    exists: async (tenant) => {
      await forgetWorkforces(tenant);
      return {};
    },
    shared: true,
  },
  '/v1/workforces/{id}': aWorkforce,
  '/v1/workforces/{id}/enroll': aWorkforce,
  '/v1/workforces/{id}/runs': aWorkforce,
  '/v1/workforces/{id}/runs/{run_id}': aWorkforceRun(),
  '/v1/workforces/{id}/runs/{run_id}/cancel': aWorkforceRun('waiting'),
  '/v1/phone-numbers/{id}': aPhoneNumber,
  '/v1/phone-numbers/{id}/release': aPhoneNumber,
  '/v1/scheduling/pools/{id}': aPool,
  '/v1/scheduling/pools/{id}/suggestion': aPool,
  '/v1/scheduling/pools/{id}/assignments': aPool,
  '/v1/scheduling/policies/{id}': aPolicy,
  '/v1/roles/{id}': { exists: async (tenant) => ({ id: await newProfile(tenant) }), shared: true },
  '/v1/branches/{id}': { exists: async (tenant) => ({ id: await newBranch(tenant) }), shared: true },
  '/v1/teams/{id}': { exists: async (tenant) => ({ id: await newTeam(tenant) }), shared: true },
  '/v1/webhooks/{id}': aWebhook,
  '/v1/webhooks/{id}/rotate-secret': aWebhook,
  '/v1/webhooks/{id}/test': aWebhook,
  '/v1/webhooks/{id}/deliveries': aWebhook,
  '/v1/webhooks/{id}/recover': aWebhook,
  '/v1/webhooks/{id}/replay': aWebhook,
  '/v1/webhooks/{id}/deliveries/{deliveryId}': { exists: aDelivery },
  '/v1/webhooks/deliveries/{deliveryId}/replay': {
    exists: async (tenant, mode) => ({ deliveryId: (await aDelivery(tenant, mode)).deliveryId }),
  },
  '/v1/checkout-sessions': {
    exists: async (tenant) => {
      await database()`update subscriptions set status = 'trialing' where company_id = ${tenant.companyId}`;
      return {};
    },
  },
  '/v1/checkout-sessions/{id}': { exists: async (tenant, mode) => ({ id: await newCheckout(tenant, mode) }) },
  '/v1/billing/portal-session': aSubscription(),
  '/v1/subscription/preview': aSubscription(),
  '/v1/subscription/upgrade': aSubscription(),
  '/v1/subscription/downgrade': aSubscription({ package_code: 'enterprise', add_ons: [] }),
  '/v1/subscription/seats': aSubscription(),
  '/v1/subscription/modules': aSubscription(),
  '/v1/subscription/modules/{module_key}': {
    exists: async (tenant, mode) => {
      await aSubscription().exists(tenant, mode);
      return { module_key: 'workforces' };
    },
    foreign: async () => ({ module_key: 'theirs' }),
    shared: true,
  },
  '/v1/subscription/cancel': aSubscription(),
  '/v1/subscription/reactivate': aSubscription({ cancel_at_period_end: true }),
  '/v1/org-nodes/{id}/users': { exists: async (tenant) => ({ id: await newBranch(tenant) }), shared: true },
};

const getKey = (tenant: Tenant, mode: Mode): string => (mode === 'live' ? tenant.key : tenant.testKey);

type Example = Record<string, unknown>;

/** By operationId: completes examples of the spec, for example with ids and unused emails. */
export const arrangedBodies: Record<
  string,
  (example: Example, tenant: Tenant, mode: Mode) => Promise<unknown> | unknown
> = {
  createOnboarding: newSignup,
  checkAccess: async (example, tenant, mode) => ({
    ...example,
    ...('api_key_id' in example ? { api_key_id: await findKeyId(tenant) } : {}),
    ...('user_id' in example ? { user_id: tenant.admin.id } : {}),
    ...('record_id' in example ? { record_id: await newRecord(tenant, mode, 'leads') } : {}),
  }),
  createExport: async (example, { companyId }) => {
    // Makes room for others: only so many may wait.
    await database()`update exports set status = 'cancelled' where company_id = ${companyId} and status = 'queued'`;
    return example;
  },
  createOnboardingAsPlatform: newSignup,
  createRecordTag: async (_, tenant) => ({ name: `Item ${await newListItem(tenant, 'tags', { object: 'leads' })}` }),
  createLinkType: (example) => {
    const name = `type_${randomUUID().slice(0, 8)}`;
    return { ...example, name, inverse_name: `${name}_of` };
  },
  mergeRecord: async (_, tenant, mode) => ({ into_id: await newRecord(tenant, mode, 'accounts') }),
  createLink: async (_, tenant, mode) => ({
    link_type: 'contacts',
    record_id: await newRecord(tenant, mode, 'customers'),
  }),
  updateLinkBatch: async (_, tenant, mode) => {
    const { id, link_id } = await linkedAccount(tenant, mode);
    const to_id = await newRecord(tenant, mode, 'customers');
    return { create: [{ object: 'accounts', record_id: id, link_type: 'contacts', to_id }], delete: [link_id] };
  },
  createBranch: withFreshName,
  updateBranch: (example) => ('name' in example ? withFreshName(example) : example),
  createTeam: (example, { branchId }) => ({ ...withFreshName(example), branch_id: branchId }),
  updateTeam: withFreshName,
  createObject: (example) => ({ ...example, slug: `o${randomUUID().slice(0, 8)}` }),
  createLead: async (example, tenant) => {
    await configureLists(tenant, example);
    return example;
  },
  upsertRecord: (example) => ({
    ...example,
    record: { ...(example.record as Example), email: `${randomUUID()}@bluelake.example` },
  }),
  updateRecordBatch: async (_, tenant, mode) => ({
    records: (await twoAccounts(tenant, mode)).map((id) => ({ id, city: 'Berlin' })),
  }),
  deleteRecordBatch: async (_, tenant, mode) => ({ ids: await twoAccounts(tenant, mode) }),
  getRecordBatch: async (_, tenant, mode) => ({ ids: await twoAccounts(tenant, mode) }),
  updatePassword: (example) => ({ ...example, current_password: adminPassword }),
  createSlaPolicy: (example) => ({ ...example, name: randomUUID() }),
  searchSlots: async (_, tenant) => ({ pool_id: (await usualPool(tenant)).id, limit: 1, ...later() }),
  createReservation: async (_, tenant, mode) => {
    const { slot_token } = await someSlot(tenant, getKey(tenant, mode));
    return { slot_token };
  },
  createBooking: async (example, tenant, mode) => {
    const { attendee, meeting } = example;
    const { policy_id, member_ids } = await usualPool(tenant);
    if ('member_ids' in example)
      return {
        attendee,
        meeting,
        policy_id,
        member_ids,
        ...later(),
        record_id: await newRecord(tenant, mode, 'leads'),
      };
    return { attendee, meeting, ...(await holdSome(tenant, getKey(tenant, mode))) };
  },
  rescheduleBooking: (example) => {
    // A time without other bookings, long enough for those of the usual pool.
    const from = Date.UTC(2036, 0, 1) + randomInt(1_000_000) * 300_000;
    return { ...example, from: new Date(from).toISOString(), to: new Date(from + 300_000).toISOString() };
  },
  createMessageDraft: async (example, tenant, mode) =>
    'record_id' in example ? { ...example, record_id: await newRecord(tenant, mode, 'leads') } : example,
  createWorkforce: withFreshName,
  enrollInWorkforce: async (example, tenant, mode) => ({
    ...example,
    subject_id: await newRecord(tenant, mode, 'leads'),
  }),
  scheduleCampaign: () => ({ scheduled_at: new Date(Date.now() + 30 * 86_400_000).toISOString() }),
  createDncEntry: (example) => ({ ...example, phone_number: someNumber() }),
  createEmailSuppressionEntry: (example) => ({ ...example, email: `${randomUUID()}@bluelake.example` }),
  createPhoneNumber: (example) => ({ ...example, phone_number: someNumber() }),
  createSchedulingAssignment: async (_, tenant, mode) => ({ record_id: await newRecord(tenant, mode, 'leads') }),
  createSchedulingPolicy: withFreshName,
  createSchedulingPool: async (_, tenant) => ({
    name: randomUUID(),
    member_ids: (await usualPool(tenant)).member_ids,
  }),
  createUser: (example) => ({ ...example, email: `${randomUUID()}@bluelake.example` }),
  createSession: async (example, tenant) =>
    'refresh_token' in example
      ? { refresh_token: (await signIn(tenant)).refresh_token }
      : { email: tenant.admin.email, password: adminPassword },
  receiveInboundReport: (example) => ({ ...example, external_id: randomUUID() }),
  createActivityType: withFreshName,
  createStatus: withFreshName,
  createTag: withFreshName,
  createSource: withFreshName,
  createView: withFreshName,
  createSavedReport: withFreshName,
  createDealPipeline: withFreshName,
  createActivity: async (example, tenant, mode) => ({
    ...example,
    entity_type: 'lead',
    entity_id: await newRecord(tenant, mode, 'leads'),
  }),
};

async function findKeyId({ companyId }: Tenant): Promise<string> {
  const [key] = await database()<{ id: string }[]>`
    select id from api_keys where company_id = ${companyId} order by created_at, id limit 1`;
  return key?.id ?? '';
}

/** Creates a failed delivery of a new webhook. */
async function aDelivery(tenant: Tenant, mode: Mode): Promise<{ id: string; deliveryId: string }> {
  const { id } = await newWebhook(tenant, mode, withoutDeliveries);
  return { id, deliveryId: await newDelivery(tenant, mode, id) };
}

/** Deletes older workforces, because a workspace has a limit. */
async function forgetWorkforces({ companyId }: Tenant): Promise<void> {
  // The latest ones stay, because concurrent requests may use them.
  const kept = database()`select id from workforces where company_id = ${companyId} order by created_at desc, id desc limit 50`;
  await database()`delete from workforce_runs where company_id = ${companyId} and workforce_id not in (${kept})`;
  await database()`delete from workforces where company_id = ${companyId} and id not in (${kept})`;
}

/** Creates a workforce whose only step is a long wait, so that jobs find no work in its runs. */
async function arrangedWorkforce({ companyId }: Tenant): Promise<{ id: string }> {
  const id = uuidv7();
  const sql = database();
  await sql`
    insert into workforces (company_id, id, name, kind, status, subject_types, steps, stop_when_replied, created_at, updated_at)
    values (${companyId}, ${id}, ${id}, 'sequence', 'active', '{lead}', ${sql.json([{ kind: 'wait', minutes: 129_600 }])}, false, now(), now())`;
  return { id };
}

/** Releases phone numbers, because a workspace has a limit. */
async function releaseNumbers({ companyId }: Tenant): Promise<void> {
  await database()`
    update phone_numbers set status = 'released', is_default = false, is_default_fax = false
    where company_id = ${companyId} and id not in (
      select id from phone_numbers where company_id = ${companyId} order by created_at desc, id desc limit 50
    )`;
}

/**
 * Creates two accounts.
 * @returns their ids
 */
async function twoAccounts(tenant: Tenant, mode: Mode): Promise<string[]> {
  return [await newRecord(tenant, mode, 'accounts'), await newRecord(tenant, mode, 'accounts')];
}

/** Names are unique within a list, and several requests create one of each. */
function withFreshName(example: Example): Example {
  const fresh = randomUUID().slice(0, 8);
  return { ...example, name: `${example.name} ${fresh}`, ...('code' in example ? { code: fresh } : {}) };
}

/** By operationId: query parameters that depend on the body, or name something that must exist. */
export const arrangedQueries: Record<
  string,
  (body: unknown, tenant: Tenant, mode: Mode) => Promise<Record<string, string>> | Record<string, string>
> = {
  createSession: (body) => ({ grant_type: 'refresh_token' in (body as Example) ? 'refresh_token' : 'password' }),
  getUserAvailability: async (_, tenant) => ({
    user_ids: (await usualPool(tenant)).member_ids[0],
    from: '2036-01-07',
    to: '2036-01-08',
  }),
  getSlotDays: async (_, tenant) => ({ pool_id: (await usualPool(tenant)).id, month: nextMonth() }),
  getSlots: async (_, tenant) => ({ member_ids: (await usualPool(tenant)).member_ids[0], ...later() }),
  getAttachmentContent: async (_, tenant) => (await getLink(tenant)).query,
  getPipeline: async (_, tenant) => ({ object: 'deals', pipeline_id: await findDefaultPipeline(tenant) }),
  getExportContent: async (_, tenant) => (await getExportLink(tenant)).query,
  getCustomerByEmail: async (_, tenant, mode) => ({
    email: `${await newRecord(tenant, mode, 'customers')}@example.com`,
  }),
};

/** By operationId and parameter: values of optional query parameters, if not those of the examples. */
export const arrangedOptions: Record<string, Record<string, (tenant: Tenant) => Promise<string>>> = {
  listRecords: { view: (tenant) => newShared(tenant, 'saved_views') },
};

function newSignup(example: Example): Example {
  const admin = example.admin_user as Example;
  return { ...example, admin_user: { ...admin, email: `${randomUUID()}@bluelake.example` } };
}

/** Returns a pipeline that is not the default. A new one per request would soon exceed their limit. */
async function someOtherPipeline(tenant: Tenant): Promise<string> {
  const [known] = await database()<{ id: string }[]>`
    select id from pipelines
    where company_id = ${tenant.companyId} and not is_default order by created_at, id limit 1`;
  return known?.id ?? newListItem(tenant, 'pipelines', { order_position: 9 });
}

async function findDefaultPipeline({ companyId }: Tenant): Promise<string> {
  const [row] = await database()<{ id: string }[]>`
    select id from pipelines where company_id = ${companyId} and is_default`;
  return row?.id ?? '';
}

const links = new WeakMap<Tenant, Promise<{ id: string; query: Record<string, string> }>>();

/** Returns the download link of an attachment of the tenant. */
function getLink(tenant: Tenant): Promise<{ id: string; query: Record<string, string> }> {
  const known = links.get(tenant);
  if (known) return known;
  const made = newAttachment(tenant, 'live').then(async (id) => {
    const { body } = await expectStatus(200, 'GET', `/v1/attachments/${id}`, { key: tenant.key });
    return { id, query: Object.fromEntries(new URL(body.data.attachment.download_url).searchParams) };
  });
  links.set(tenant, made);
  return made;
}

const exportLinks = new WeakMap<Tenant, Promise<{ id: string; query: Record<string, string> }>>();

/** Returns the download link of an export that a tenant has. */
function getExportLink(tenant: Tenant): Promise<{ id: string; query: Record<string, string> }> {
  const known = exportLinks.get(tenant);
  if (known) return known;
  // An attachment has its file, so that no job has to write one.
  const made = newAttachment(tenant, 'live').then(async (attachment) => {
    const [file] = await database()`select file_id, size_bytes as bytes from attachments where id = ${attachment}`;
    const completed = { status: 'completed', ...file, expires_at: new Date(Date.now() + 3_600_000) };
    const id = await newExport(tenant, 'live', completed);
    const { body } = await expectStatus(200, 'GET', `/v1/exports/${id}`, { key: tenant.key });
    return { id, query: Object.fromEntries(new URL(body.data.export.download_url).searchParams) };
  });
  exportLinks.set(tenant, made);
  return made;
}

/** Creates an entry of the request log. @param milliseconds when the request arrived */
export async function newLoggedRequest(tenant: Tenant, mode: Mode, milliseconds = Date.now()): Promise<string> {
  const request = loggedRequest(tenant, { testMode: mode === 'test', id: uuidv7({ msecs: milliseconds }) });
  await logRequests([request]);
  return request.id;
}

/** Returns a successful request of the server itself, with some fields changed. */
export function loggedRequest({ companyId }: Tenant, fields: Partial<LoggedRequest> = {}): LoggedRequest {
  return {
    companyId,
    testMode: false,
    id: uuidv7(),
    method: 'GET',
    path: '/v1/me',
    operation: 'getMe',
    status: 200,
    errorCode: null,
    durationMs: 1.5,
    actorKind: 'system',
    actorId: 'test',
    keyName: null,
    ip: '',
    userAgent: null,
    idempotentReplay: false,
    requestBody: null,
    error: null,
    ...fields,
  };
}

/** Returns the blocks of some requests. */
export function toBlocks(requests: readonly LoggedRequest[]): RequestBlock[] {
  const queue = new RequestQueue();
  for (const request of requests) queue.add(request);
  return queue.take();
}

/** Writes requests to the log, in as few blocks as possible. */
export async function logRequests(requests: readonly LoggedRequest[]): Promise<void> {
  await insertRequestBlocks(database(), toBlocks(requests));
}

/** Returns an export that is only a row; answers its id. @param columns of the row */
export async function newExport(tenant: Tenant, mode: Mode, columns: Record<string, unknown>): Promise<string> {
  const id = uuidv7();
  const sql = database();
  await sql`
    insert into exports ${sql({
      ...{ company_id: tenant.companyId, test_mode: mode === 'test', id, object: 'leads', format: 'ndjson' },
      ...{ spreadsheet_safe: false, modules: ['leads'], sources: '[]', claimed_until: new Date() },
      ...{ created_by_kind: 'system', created_by_id: 'test', created_at: new Date() },
      ...columns,
    })}`;
  return id;
}

/**
 * Creates an attachment on a new record.
 * @returns its id
 */
export async function newAttachment(tenant: Tenant, mode: Mode): Promise<string> {
  const record = await newRecord(tenant, mode, 'accounts');
  const key = mode === 'live' ? tenant.key : tenant.testKey;
  const { body } = await expectStatus(201, 'POST', `/v1/objects/accounts/records/${record}/attachments`, {
    key,
    ...fileForm(),
  });
  return body.data.attachment.id;
}

/** Creates a lead with a manual tag. */
async function taggedLead(tenant: Tenant, mode: Mode): Promise<{ id: string; tag_id: string }> {
  const [id, tag_id] = [await newRecord(tenant, mode, 'leads'), await newListItem(tenant, 'tags', { object: 'leads' })];
  await database()`
    insert into record_tags (company_id, test_mode, object, record_id, tag_id, is_manual)
    values (${tenant.companyId}, ${mode === 'test'}, 'leads', ${id}, ${tag_id}, true)`;
  return { id, tag_id };
}

/** Creates a note on a new record. */
export async function newNote(tenant: Tenant, mode: Mode): Promise<{ id: string; note_id: string }> {
  const [id, note_id] = [await newRecord(tenant, mode, 'accounts'), uuidv7()];
  await database()`
    insert into notes (company_id, test_mode, id, object, record_id, content, created_by_kind, created_by_id, created_at, updated_at)
    values (${tenant.companyId}, ${mode === 'test'}, ${note_id}, 'accounts', ${id}, 'N', 'system', 'test', now(), now())`;
  return { id, note_id };
}

/** Creates a message on a new record. */
export async function newMessage(tenant: Tenant, mode: Mode): Promise<void> {
  const record = await newRecord(tenant, mode, 'accounts');
  await database()`
    insert into messages (company_id, test_mode, id, object, record_id, channel, direction, body, occurred_at)
    values (${tenant.companyId}, ${mode === 'test'}, ${uuidv7()}, 'accounts', ${record}, 'sms', 'inbound', 'Hello', now())`;
}

/**
 * Creates an unpaid checkout.
 * @returns its id
 */
async function newCheckout(tenant: Tenant, mode: Mode): Promise<string> {
  const id = newSessionId('cs');
  await database()`
    insert into checkout_sessions (company_id, test_mode, id, kind, package_code, billing_cycle, currency, url, created_at, expires_at)
    values (${tenant.companyId}, ${mode === 'test'}, ${id}, 'subscribe', 'growth', 'monthly', 'USD', 'http://127.0.0.1/', now(), now() + interval '1 day')`;
  return id;
}

/**
 * Creates a user with an empty external calendar.
 * @returns the user's id
 */
async function newCalendar(tenant: Tenant): Promise<string> {
  const { id } = await newUser(tenant);
  await database()`
    insert into user_calendars (company_id, user_id, provider, checked_at, looked_until, due_at, created_at, updated_at)
    values (${tenant.companyId}, ${id}, 'test', now(), now(), now() + interval '1 day', now(), now())`;
  return id;
}

/**
 * Creates a custom object.
 * @returns its API name
 */
export async function newObject(tenant: Tenant): Promise<string> {
  const slug = `o${randomUUID().slice(0, 8)}`;
  await database()`
    insert into custom_objects (company_id, slug, label, plural, created_at, updated_at)
    values (${tenant.companyId}, ${slug}, 'Visit', 'Visits', now(), now())`;
  return `object:${slug}`;
}

/**
 * Creates a custom field of an object, a select by default.
 * @returns its name
 */
export async function newField(tenant: Tenant, object: string, type: 'select' | 'text' = 'select'): Promise<string> {
  const options = type === 'select' ? database().json([{ label: 'Red', value: 'red' }]) : null;
  const name = `f_${randomUUID().slice(0, 8)}`;
  await database()`
    insert into custom_fields (company_id, object, name, label, type, options, created_at, updated_at)
    values (${tenant.companyId}, ${object}, ${name}, 'Colour', ${type}, ${options}, now(), now())`;
  return name;
}

/**
 * Creates a link type from accounts to customers.
 * @returns its id
 */
async function newLinkType({ companyId }: Tenant, name: string): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into link_types (company_id, id, name, inverse_name, label, inverse_label, from_object, to_object, cardinality, created_at, updated_at)
    values (${companyId}, ${id}, ${name}, ${`${name}_of`}, 'Label', 'Inverse label', 'accounts', 'customers', 'many_to_many', now(), now())`;
  return id;
}

/** Creates an account with a link to a customer, of the type that examples name. */
export async function linkedAccount(tenant: Tenant, mode: Mode): Promise<{ id: string; link_id: string }> {
  const sql = database();
  const { companyId } = tenant;
  const [known] = await sql`select id from link_types where company_id = ${companyId} and name = 'contacts'`;
  const type = known?.id ?? (await newLinkType(tenant, 'contacts'));
  const [id, customer] = [await newRecord(tenant, mode, 'accounts'), await newRecord(tenant, mode, 'customers')];
  const link_id = uuidv7();
  await sql`
    insert into links (company_id, test_mode, id, link_type_id, from_object, from_id, to_object, to_id, cardinality,
      created_by_kind, created_by_id, created_at)
    values (${companyId}, ${mode === 'test'}, ${link_id}, ${type}, 'accounts', ${id}, 'customers', ${customer}, 'many_to_many',
      'system', 'test', now())`;
  return { id, link_id };
}

/**
 * Creates an item of a configured list with a unique name.
 * @returns its id
 */
export async function newListItem(
  tenant: Tenant,
  list: 'pipelines' | 'statuses' | 'tags' | 'sources',
  more: Example = {},
): Promise<string> {
  const sql = database();
  const id = uuidv7();
  const now = new Date();
  const row = { company_id: tenant.companyId, id, name: `Item ${id}`, created_at: now, updated_at: now, ...more };
  await sql`insert into ${sql(list)} ${sql(row)}`;
  return id;
}

/** Creates a shared view of accounts or saved report of deals, which every key of the tenant sees. */
async function newShared(tenant: Tenant, table: 'saved_views' | 'saved_reports'): Promise<string> {
  const sql = database();
  const id = uuidv7();
  const now = new Date();
  const object = table === 'saved_views' ? 'accounts' : 'deals';
  const by = { created_by_kind: 'system', created_by_id: 'test', created_at: now, updated_at: now };
  const row = { company_id: tenant.companyId, id, object, name: `Item ${id}`, is_shared: true, ...by };
  await sql`insert into ${sql(table)} ${sql(row)}`;
  return id;
}

/**
 * Creates a record with only an email.
 * @returns its id
 */
export async function newRecord(
  tenant: Tenant,
  mode: Mode,
  object: 'leads' | 'customers' | 'accounts',
): Promise<string> {
  const id = uuidv7();
  const sql = database();
  await sql`
    insert into ${sql(object)} (company_id, test_mode, id, email, created_by_kind, created_by_id, created_at, updated_at)
    values (${tenant.companyId}, ${mode === 'test'}, ${id}, ${`${id}@example.com`}, 'system', 'test', now(), now())`;
  return id;
}

/**
 * Creates a deal in the first stage.
 * @returns its id
 */
export async function newDeal(tenant: Tenant, mode: Mode): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into deals (company_id, test_mode, id, name, pipeline_id, stage_id, created_by_kind, created_by_id, created_at, updated_at)
    select p.company_id, ${mode === 'test'}, ${id}, 'Deal', p.id, s.id, 'system', 'test', now(), now()
    from pipelines p join statuses s on s.company_id = p.company_id and s.pipeline_id = p.id
    where p.company_id = ${tenant.companyId} and p.is_default and s.name = 'New'`;
  return id;
}

/** Deletes the row of a record. */
export async function removeRecord(tenant: Tenant, table: string, id: string): Promise<void> {
  const sql = database();
  await sql`delete from ${sql(table)} where company_id = ${tenant.companyId} and id = ${id}`;
}

/**
 * Creates a branch without members.
 * @returns its id
 */
export async function newBranch(tenant: Tenant): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into branches (company_id, id, name, created_at) values (${tenant.companyId}, ${id}, 'Elsewhere', now())`;
  return id;
}

/**
 * Creates a team of a branch.
 * @returns its id
 */
export async function newTeam(tenant: Tenant, branchId = tenant.branchId, name = 'Team'): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into teams (company_id, id, branch_id, name, created_at) values (${tenant.companyId}, ${id}, ${branchId}, ${name}, now())`;
  return id;
}

/**
 * Creates a custom profile.
 * @returns its id
 */
export async function newProfile(
  tenant: Tenant,
  permissions: Record<string, string[]> = { leads: ['view'] },
): Promise<string> {
  const id = uuidv7();
  const sql = database();
  await sql`
    insert into profiles (company_id, id, name, description, created_at, updated_at)
    values (${tenant.companyId}, ${id}, ${`Profile ${id}`}, 'Made in the app', now(), now())`;
  for (const [module, actions] of Object.entries(permissions))
    await sql`
      insert into profile_permissions (company_id, profile_id, module, actions) values (${tenant.companyId}, ${id}, ${module}, ${actions})`;
  return id;
}

/** Creates the source and the tags that an example names. */
async function configureLists(tenant: Tenant, example: Example): Promise<void> {
  const sql = database();
  const { source, tags } = example as { source?: string; tags?: string[] };
  if (source)
    await sql`
      insert into sources (company_id, id, name, created_at, updated_at)
      values (${tenant.companyId}, ${uuidv7()}, ${source}, now(), now()) on conflict do nothing`;
  for (const name of tags ?? [])
    await sql`
      insert into tags (company_id, id, object, name, created_at, updated_at)
      values (${tenant.companyId}, ${uuidv7()}, 'leads', ${name}, now(), now()) on conflict do nothing`;
}

/**
 * Creates an activity on a new lead.
 * @returns its id
 */
export async function newActivity(tenant: Tenant, mode: Mode): Promise<string> {
  const id = uuidv7();
  const lead = await newRecord(tenant, mode, 'leads');
  await database()`
    insert into activities (company_id, test_mode, id, activity_type_id, entity_type, entity_id, summary, performed_at,
      created_by_kind, created_by_id, created_at, updated_at)
    select company_id, ${mode === 'test'}, ${id}, id, 'lead', ${lead}, 'Called', now(), 'system', 'test', now(), now()
    from activity_types where company_id = ${tenant.companyId} and name = 'Call'`;
  return id;
}

/**
 * Creates a custom activity type.
 * @returns its id
 */
async function newActivityType(tenant: Tenant): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into activity_types (company_id, id, name, order_position) values (${tenant.companyId}, ${id}, ${id}, 100)`;
  return id;
}

/**
 * Creates an SLA policy that applies to no record, because customers have no priority.
 * @returns its id
 */
export async function newSlaPolicy(tenant: Tenant): Promise<string> {
  const id = uuidv7();
  await database()`
    insert into sla_policies (company_id, id, name, entity_type, priority, is_active, first_response_time, mode, timezone, created_at, updated_at)
    values (${tenant.companyId}, ${id}, ${id}, 'customer', 4, true, 60, '24/7', 'UTC', now(), now())`;
  return id;
}

async function newKeyId(tenant: Tenant): Promise<string> {
  const key = await newKey(tenant, { scopes: ['leads:view'] });
  const [row] = await database()<{ id: string }[]>`
    select id from api_keys where company_id = ${tenant.companyId} and last4 = ${key.slice(-4)} order by created_at desc, id desc limit 1`;
  return row?.id ?? '';
}
