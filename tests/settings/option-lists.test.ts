// Feed events of lists that supply the options of fields.
import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { newWideTenant } from '../support/requests.ts';

let key: string;

beforeAll(async () => {
  ({ key } = await newWideTenant());
});

/** Runs a change. @returns the sorted objects of its schema.changed events */
async function changedObjects(change: () => Promise<unknown>): Promise<Json[]> {
  const cursor = await now(key);
  await change();
  const changes = await changesAfter(key, cursor);
  expect(changes.every(({ event }) => event === 'schema.changed')).toBe(true);
  return changes.map(({ object }) => object).toSorted();
}

const lists = [
  {
    path: '/v1/settings/sources',
    resourceKey: 'source',
    switched: 'is_enabled',
    objects: ['customers', 'deals', 'leads'],
  },
  { path: '/v1/settings/statuses/deals', resourceKey: 'status', switched: 'is_active', objects: ['deals'] },
  { path: '/v1/settings/statuses/leads', resourceKey: 'status', switched: 'is_active', objects: ['leads'] },
  { path: '/v1/settings/activity-types', resourceKey: 'activity_type', switched: 'is_active', objects: ['activities'] },
];

test.each(lists)(
  'emits schema.changed for the objects of $path if their options change, and for no other change',
  async ({ path, resourceKey, switched, objects }) => {
    let id = '';
    const change = (body: object) => changedObjects(() => expectStatus(200, 'PATCH', `${path}/${id}`, { key, body }));
    const added = await changedObjects(async () => {
      const { body } = await expectStatus(201, 'POST', path, { key, body: { name: 'Fresh' } });
      id = body.data[resourceKey].id;
    });
    expect(added).toEqual(objects);
    expect(await change({ name: 'Fresher' })).toEqual(objects);
    if (resourceKey !== 'activity_type') expect(await change({ description: 'No option says it' })).toEqual([]);
    expect(await change({ [switched]: false })).toEqual(objects);
    expect(await change({ name: 'Unseen' })).toEqual([]);
    if (resourceKey === 'activity_type') return;
    expect(await changedObjects(() => expectStatus(200, 'DELETE', `${path}/${id}`, { key }))).toEqual([]);
  },
);

test('emits schema.changed for deals if a pipeline is created, renamed, moved or deleted, not if it becomes the default', async () => {
  const path = '/v1/settings/pipelines';
  let id = '';
  const change = (on: string, body: object) =>
    changedObjects(() => expectStatus(200, 'PATCH', `${path}/${on}`, { key, body }));
  const added = await changedObjects(async () => {
    const { body } = await expectStatus(201, 'POST', path, { key, body: { name: 'Fresh' } });
    id = body.data.pipeline.id;
  });
  expect(added).toEqual(['deals']);
  expect(await change(id, { name: 'Fresher' })).toEqual(['deals']);
  expect(await change(id, { order_position: 1 })).toEqual(['deals']);
  expect(await change(id, { is_default: true })).toEqual([]);
  const { body } = await expectStatus(200, 'GET', path, { key });
  await change(body.data.pipelines[1].id, { is_default: true });
  expect(await changedObjects(() => expectStatus(200, 'DELETE', `${path}/${id}`, { key }))).toEqual(['deals']);
});
