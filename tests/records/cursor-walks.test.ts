// Lists around records, walked during concurrent inserts and deletions: no repeats, no gaps.
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { createRecord, recordsPath } from '../support/records.ts';
import { newTenant } from '../support/tenants.ts';
import { fileForm } from '../support/uploads.ts';

let key: string;

beforeAll(async () => {
  ({ key } = await newTenant());
});

interface List {
  path: (lead: string) => string;
  /** The name of the list in the response. */
  name: string;
  add: (lead: string, index: number) => Promise<string>;
  /** The path that deletes an item, if items can be deleted. */
  one?: (id: string) => string;
}

const onLead = (lead: string, what: string) => `${recordsPath('leads', lead)}/${what}`;

async function addActivity(lead: string, index: number): Promise<string> {
  // Some share their time, and the times are not in order.
  const performed_at = `2026-05-${String(10 + ((index * 7) % 9))}T10:00:00.000Z`;
  const body = { entity_type: 'lead', entity_id: lead, activity_type: 'Call', summary: 'x', performed_at };
  return (await expectStatus(201, 'POST', '/v1/activities', { key, body })).body.data.activity.id;
}

const lists: Record<string, List> = {
  activities: {
    path: (lead) => `/v1/activities?entity_id=${lead}`,
    name: 'activities',
    add: addActivity,
    one: (id) => recordsPath('activities', id),
  },
  'activities of a record': {
    path: (lead) => onLead(lead, 'activities'),
    name: 'activities',
    add: addActivity,
    one: (id) => recordsPath('activities', id),
  },
  tasks: {
    path: (lead) => onLead(lead, 'tasks'),
    name: 'tasks',
    add: async (lead) => {
      const body = { title: 'T', scheduled_at: '2030-01-01T00:00:00Z' };
      return (await expectStatus(201, 'POST', onLead(lead, 'tasks'), { key, body })).body.data.task.id;
    },
    one: (id) => recordsPath('tasks', id),
  },
  notes: {
    path: (lead) => onLead(lead, 'notes'),
    name: 'notes',
    add: async (lead) =>
      (await expectStatus(201, 'POST', onLead(lead, 'notes'), { key, body: { content: 'N' } })).body.data.note.id,
  },
  attachments: {
    path: (lead) => onLead(lead, 'attachments'),
    name: 'attachments',
    add: async (lead) =>
      (await expectStatus(201, 'POST', onLead(lead, 'attachments'), { key, ...fileForm() })).body.data.attachment.id,
    one: (id) => `/v1/attachments/${id}`,
  },
};

async function walk({ path, name }: List, lead: string): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const [address = '', filters = ''] = path(lead).split('?');
    const query: Record<string, string | number> = {
      ...Object.fromEntries(new URLSearchParams(filters)),
      limit: 7,
      ...(cursor ? { cursor } : {}),
    };
    const { data }: { data: Json } = (await expectStatus(200, 'GET', address, { key, query })).body;
    expect(data.has_more).toBe(data.next_cursor !== null);
    ids.push(...data[name].map(({ id }: Json) => id));
    cursor = data.next_cursor;
  } while (cursor !== null);
  return ids;
}

test.each(Object.entries(lists))(
  'repeats no item of %s and skips none that existed throughout the walk',
  async (_, list) => {
    const { id: lead } = await createRecord(key, 'leads', { first_name: 'A', email: `${randomUUID()}@x.example` });
    const there: string[] = [];
    for (let index = 0; index < 60; index += 1) there.push(await list.add(lead, index));
    const leaving = list.one ? there.filter((_id, index) => index % 4 === 0) : [];
    const staying = there.filter((id) => !leaving.includes(id));
    let done = false;
    const disturb = async () => {
      for (let index = 0; !done; index += 1) {
        await list.add(lead, index);
        const id = leaving.pop();
        if (id && list.one) await expectStatus(200, 'DELETE', list.one(id), { key });
      }
    };
    const disturbing = disturb();
    for (let round = 0; round < 3; round += 1) {
      const seen = await walk(list, lead);
      expect(new Set(seen).size).toBe(seen.length);
      expect(staying.filter((id) => !seen.includes(id))).toEqual([]);
    }
    done = true;
    await disturbing;
  },
);
