// What followers of the feed hear when a list changes that fields take their options from.
import { beforeAll, expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { changesAfter, now } from '../support/feeds.ts';
import { newWideTenant } from '../support/requests.ts';

let key: string;

beforeAll(async () => {
  ({ key } = await newWideTenant());
});

/** The objects that a change is told of, sorted. */
async function toldBy(change: () => Promise<unknown>): Promise<Json[]> {
  const cursor = await now(key);
  await change();
  const changes = await changesAfter(key, cursor);
  expect(changes.every(({ event }) => event === 'schema.changed')).toBe(true);
  return changes.map(({ object }) => object).toSorted();
}

const lists = [
  { path: '/v1/settings/sources', shown: 'source', switched: 'is_enabled', objects: ['customers', 'deals', 'leads'] },
  { path: '/v1/settings/statuses/deals', shown: 'status', switched: 'is_active', objects: ['deals'] },
  { path: '/v1/settings/statuses/leads', shown: 'status', switched: 'is_active', objects: ['leads'] },
  { path: '/v1/settings/activity-types', shown: 'activity_type', switched: 'is_active', objects: ['activities'] },
];

test.each(lists)(
  '$path tells of its objects where their options change, and of nothing else',
  async ({ path, shown, switched, objects }) => {
    let id = '';
    const change = (body: object) => toldBy(() => expectStatus(200, 'PATCH', `${path}/${id}`, { key, body }));
    const added = await toldBy(async () => {
      const { body } = await expectStatus(201, 'POST', path, { key, body: { name: 'Fresh' } });
      id = body.data[shown].id;
    });
    expect(added).toEqual(objects);
    expect(await change({ name: 'Fresher' })).toEqual(objects);
    if (shown !== 'activity_type') expect(await change({ description: 'No option says it' })).toEqual([]);
    expect(await change({ [switched]: false })).toEqual(objects);
    expect(await change({ name: 'Unseen' })).toEqual([]);
    if (shown === 'activity_type') return;
    expect(await toldBy(() => expectStatus(200, 'DELETE', `${path}/${id}`, { key }))).toEqual([]);
  },
);
