// Requests that no example of the OpenAPI document covers.
import { randomUUID } from 'node:crypto';
import type { FixtureTenant } from './fixture-tenant.ts';
import { askingStatuses } from './other-records.ts';
import { type Probe, varied } from './probe.ts';
import { renamedId } from './shadow-rows.ts';

const childrenOfRecords = '/v1/objects/{object}/records/{id}/';

/** Returns additional requests for an operation, for example about users of other tenants. */
export function additionalRequests(probe: Probe, { tenant: { admin }, records, spares }: FixtureTenant): Probe[] {
  const { operation, options } = probe;
  const stranger = renamedId(admin.id);
  switch (operation.id) {
    case 'getUser':
      return [{ ...varied(probe, {}), path: `/v1/users/${stranger}` }];
    case 'getAttachment':
      return [{ ...varied(probe, {}), path: `/v1/attachments/${renamedId(probe.path.split('/').at(-1) ?? '')}` }];
    case 'getRole':
      return [{ ...varied(probe, {}), path: `/v1/roles/${spares.profile}` }];
    case 'updateUser':
      return [{ ...varied(probe, { body: { status: 'inactive' } }), path: `/v1/users/${admin.id}` }];
    case 'createActivity': {
      // Between the start of the shadows' SLA clocks and that of the tenant's.
      const performed_at = new Date(Date.now() - 1_800_000).toISOString();
      const body = {
        entity_type: 'lead',
        entity_id: records.get('leads')?.[2],
        activity_type: 'Call',
        summary: 'Called',
        performed_at,
      };
      return [varied(probe, { body })];
    }
    case 'updateActivity':
      return [{ ...varied(probe, { body: { followup_at: null } }), path: `/v1/activities/${spares.followed}` }];
    case 'listRecords':
      return [
        { filter: JSON.stringify({ field: 'tags', op: 'in', value: ['Warm'] }), expand: 'tags', count: 'true' },
        { filter: JSON.stringify({ field: 'tags', op: 'is_null' }), count: 'true' },
        {
          filter: JSON.stringify({ field: 'site_of.name', op: 'is_null', value: false }),
          expand: 'links.site_of,links.deals',
        },
        { filter: JSON.stringify({ link: 'deals', none: { field: 'created_at', op: 'gt', value: '2000-01-01' } }) },
      ].map((query) => ({ ...varied(probe, { query }), path: '/v1/objects/leads/records' }));
    case 'createRecord': {
      const body = { first_name: 'Sara', email: `${randomUUID()}@x.example`, tags: ['Warm'] };
      return [{ ...varied(probe, { body }), path: '/v1/objects/leads/records' }];
    }
    case 'updateRecord':
      return [
        [records.get('leads')?.[2], []],
        [spares.bare, ['Warm']],
      ].map(([id, tags]) => ({ ...varied(probe, { body: { tags } }), path: `/v1/objects/leads/records/${id}` }));
    case 'deleteRecord':
      return [{ ...varied(probe, {}), path: `/v1/objects/leads/records/${spares.bare}` }];
    case 'createSlaPolicy': {
      const reminder = { type: 'first_response', minutes_before: 1, recipient_user_ids: [stranger] };
      const body = { ...(options.body as object), name: randomUUID(), reminders: [reminder] };
      return [varied(probe, { body })];
    }
    case 'searchRecords':
      return [varied(probe, { query: { ...options.query, q: 'Walk' } })];
    case 'convertLead':
      return [spares.unlike, records.get('leads')?.[2]].map((id) => ({
        ...varied(probe, { body: {} }),
        path: `/v1/leads/${id}/convert`,
      }));
    case 'updateLeadStatus':
      return askingStatuses.map((lead_status) => ({
        ...varied(probe, { body: { lead_status } }),
        path: `/v1/leads/${spares.bare}/status`,
      }));
    default:
      return operation.method === 'GET' && operation.path.startsWith(childrenOfRecords)
        ? [{ ...varied(probe, {}), path: operation.path.replace('{object}', 'leads').replace('{id}', spares.bare) }]
        : [];
  }
}
