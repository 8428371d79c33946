// Valid arguments for each MCP tool of a tenant.
import { linkedAccount, newActivity, newDeal, newRecord } from './arranged-ids.ts';
import { proposeAccount } from './change-sets.ts';
import type { Json } from './client.ts';
import { attendee, holdSome, meeting, someSlot, usualPool } from './scheduling.ts';
import type { Tenant } from './tenants.ts';

export const tomorrow = new Date(Date.now() + 86_400_000).toISOString();

/** By tool. A function arranges what its arguments name on each call. */
export function toolExamples(tenant: Tenant, lead: string): Record<string, () => Json | Promise<Json>> {
  return {
    whoami: () => ({}),
    list_objects: () => ({}),
    describe_object: () => ({ object: 'leads' }),
    search: () => ({ q: 'example' }),
    query_records: () => ({ object: 'leads', sort: '-created_at' }),
    get_record: () => ({ object: 'leads', id: lead, fields: 'email' }),
    create_record: () => ({ object: 'accounts', record: { name: 'Blue Lake' } }),
    update_record: () => ({ object: 'leads', id: lead, record: { city: 'Dubai' } }),
    batch_create_records: () => ({ object: 'accounts', records: [{ name: 'One' }, { nome: 'Two' }] }),
    create_lead: () => ({ first_name: 'Sara', email: 'sara@example.com' }),
    get_customer: async () => ({ id: await newRecord(tenant, 'live', 'customers') }),
    log_activity: () => ({ entity_type: 'lead', entity_id: lead, activity_type: 'Call', summary: 'Asked for a quote' }),
    update_activity: async () => ({ id: await newActivity(tenant, 'live'), summary: 'Asked again' }),
    list_activities: () => ({ fields: 'summary' }),
    add_note: () => ({ object: 'leads', id: lead, content: 'Likes tea' }),
    list_notes: () => ({ object: 'leads', id: lead }),
    link_records: async () => ({
      object: 'accounts',
      id: (await linkedAccount(tenant, 'live')).id,
      link_type: 'contacts',
      record_id: await newRecord(tenant, 'live', 'customers'),
    }),
    list_links: () => ({ object: 'leads', id: lead }),
    create_task: () => ({ object: 'leads', id: lead, title: 'Call', scheduled_at: tomorrow }),
    move_deal_stage: async () => ({ id: await newDeal(tenant, 'live'), stage: 'Qualified' }),
    run_report: () => ({ object: 'leads', metric: 'count' }),
    pipeline_report: () => ({ object: 'deals' }),
    list_settings: () => ({ kind: 'statuses', object: 'leads' }),
    find_slots: async () => ({ pool_id: (await usualPool(tenant)).id }),
    hold_slot: async () => ({ slot_token: (await someSlot(tenant, tenant.key)).slot_token }),
    book_meeting: async () => ({ ...(await holdSome(tenant, tenant.key)), attendee, meeting }),
    list_bookings: () => ({ status: 'confirmed,cancelled', limit: 5 }),
    draft_message: () => ({ channel: 'email', to: 'sara@example.com', subject: 'Hi', body: 'Hello' }),
    list_drafts: () => ({ status: 'draft', fields: 'to' }),
    list_messages: () => ({ object: 'leads', id: lead }),
    find_users: () => ({ q: tenant.admin.email.slice(0, 20), fields: 'full_name,email' }),
    get_change_set: async () => ({ id: (await proposeAccount(tenant.key)).id }),
    get_usage: () => ({}),
  };
}
