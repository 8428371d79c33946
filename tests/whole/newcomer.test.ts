// The main job of a new user: from the signup to ten thousand records, read back in order.
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { expectStatus, type Json } from '../support/client.ts';
import { listProblems } from '../support/records.ts';

const pageSize = 100;
const recordCount = 10_000;

interface Visit {
  name: string;
  city: string;
  score: number;
  outcome: string | null;
}

const cities = ['Athens', 'Bergen', 'Cork', 'Dresden'];
const outcomes = ['won', 'open', 'lost', null];
const visit = (index: number): Visit => ({
  name: `Visit ${String(index).padStart(5, '0')}`,
  city: cities[index % cities.length] as string,
  score: (index * 7919) % 100,
  outcome: outcomes[(index >> 2) % outcomes.length] as string | null,
});

/** Compares by sort=city,-outcome,name: text by code points, nulls last in both directions. */
function byCityOutcomeName(a: Visit, b: Visit): number {
  if (a.city !== b.city) return a.city < b.city ? -1 : 1;
  if (a.outcome !== b.outcome) {
    if (a.outcome === null) return 1;
    if (b.outcome === null) return -1;
    return a.outcome > b.outcome ? -1 : 1;
  }
  return a.name < b.name ? -1 : 1;
}

/**
 * Signs up a company, signs in its admin, changes the temporary password, and creates a key with a
 * rate limit for an import.
 */
async function newcomer(): Promise<{ key: string; token: string }> {
  const email = `${randomUUID()}@newcomer.example`;
  const { body: signup } = await expectStatus(201, 'POST', '/v1/onboarding', {
    body: {
      company: { name: 'Newcomer', email: 'office@newcomer.example' },
      admin_user: { email, full_name: 'Nina Newcomer' },
      region: 'europe',
      industry: 'Retail',
    },
  });
  const { body: session } = await expectStatus(200, 'POST', '/auth/v1/token', {
    query: { grant_type: 'password' },
    body: { email, password: signup.data.temp_password },
  });
  await expectStatus(200, 'PATCH', '/v1/me/password', {
    token: session.access_token,
    body: { current_password: signup.data.temp_password, password: 'a phrase that Nina chose' },
  });
  const { body: minted } = await expectStatus(201, 'POST', '/v1/api-keys', {
    token: session.access_token,
    body: { name: 'Import', scopes: ['*'], rate_limit_per_minute: 6000, rate_limit_per_hour: 200_000 },
  });
  return { key: minted.data.key, token: session.access_token };
}

async function makeVisits(key: string): Promise<void> {
  await expectStatus(201, 'POST', '/v1/objects', { key, body: { slug: 'visits', label: 'Visit', plural: 'Visits' } });
  const select = {
    name: 'Outcome',
    label: 'Outcome',
    type: 'select',
    options: [{ label: 'won' }, { label: 'open' }, { label: 'lost' }],
  };
  for (const field of [
    { name: 'City', label: 'City', type: 'text', required: true },
    { name: 'score', label: 'Score', type: 'number' },
    select,
  ])
    await expectStatus(201, 'POST', '/v1/objects/object%3Avisits/fields', { key, body: field });
}

const records = '/v1/objects/object%3Avisits/records';

test('signs up, creates a key and an object, loads 10,000 records, and reads them back filtered, sorted and paged', async () => {
  const { key } = await newcomer();
  await makeVisits(key);

  const stored: Visit[] = [];
  let firstBatch: { body: Json; idempotencyKey: string; text: string } | undefined;
  for (let from = 0; from < recordCount; from += 100) {
    const batch = Array.from({ length: 100 }, (_, offset) => visit(from + offset));
    const idempotencyKey = `import-${from}-${randomUUID()}`;
    const { body, text } = await expectStatus(200, 'POST', `${records}:batch`, { key, idempotencyKey, body: batch });
    expect(body.data).toMatchObject({ succeeded_count: 100, failed_count: 0, failed: [] });
    firstBatch ??= { body: batch, idempotencyKey, text };
    stored.push(...batch);
  }
  const replay = await expectStatus(200, 'POST', `${records}:batch`, { key, ...firstBatch });
  expect(replay.headers.get('idempotent-replay')).toBe('true');
  expect(replay.text).toBe(firstBatch?.text);

  const filter = {
    or: [
      {
        and: [
          { field: 'city', op: 'in', value: ['Athens', 'Cork'] },
          {
            or: [
              { field: 'outcome', op: 'is_null', value: true },
              { field: 'outcome', op: 'eq', value: 'won' },
            ],
          },
        ],
      },
      { field: 'name', op: 'contains', value: 'visit 0999' },
    ],
  };
  const wanted = stored
    .filter(
      (each) =>
        (['Athens', 'Cork'].includes(each.city) && (each.outcome === null || each.outcome === 'won')) ||
        each.name.startsWith('Visit 0999'),
    )
    .sort(byCityOutcomeName);
  const seen: Json[] = [];
  let cursor: string | null = null;
  do {
    const query: Record<string, string | number> = {
      limit: pageSize,
      sort: 'city,-outcome,name',
      filter: JSON.stringify(filter),
    };
    if (cursor) query.cursor = cursor;
    const { body }: { body: Json } = await expectStatus(200, 'GET', records, { key, query });
    seen.push(...body.data.records);
    cursor = body.data.next_cursor;
    expect(body.data.has_more).toBe(cursor !== null);
  } while (cursor !== null);
  expect(seen.map((record) => record.name)).toEqual(wanted.map((each) => each.name));

  const { id } = seen[0];
  const patched = await expectStatus(200, 'PATCH', `${records}/${id}`, { key, body: { score: '42', outcome: 'lost' } });
  expect(patched.body.data.record).toMatchObject({ id, score: 42, outcome: 'lost', city: seen[0].city });
  await expectStatus(200, 'DELETE', `${records}/${id}`, { key });
  await expectStatus(404, 'GET', `${records}/${id}`, { key });
});

test('says what to change after a mistake at every step', async () => {
  const { key, token } = await newcomer();
  await makeVisits(key);
  const fields = (answer: Json) => listProblems(answer.body.error);
  const mint = await expectStatus(400, 'POST', '/v1/api-keys', {
    token,
    body: { name: 'Import', scopes: ['leads:fly'] },
  });
  expect(fields(mint)).toEqual(['scopes[0] INVALID_OPTION']);
  const slug = await expectStatus(422, 'POST', '/v1/objects', {
    key,
    body: { slug: 'Site Visits', label: 'Visit', plural: 'Visits' },
  });
  expect(fields(slug)).toEqual(['slug INVALID_FORMAT']);
  const field = await expectStatus(422, 'POST', '/v1/objects/object%3Avisits/fields', {
    key,
    body: { name: 'id', label: 'Id', type: 'text' },
  });
  expect(fields(field)).toEqual(['name RESERVED_NAME']);
  const keyless = await expectStatus(428, 'POST', `${records}:batch`, { key, body: [visit(1)] });
  expect(keyless.body.error.code).toBe('IDEMPOTENCY_KEY_REQUIRED');
  const batch = await expectStatus(200, 'POST', `${records}:batch`, {
    key,
    idempotencyKey: true,
    body: [visit(1), { name: 'No city', scores: 1 }],
  });
  expect(batch.body.data).toMatchObject({
    succeeded_count: 1,
    failed_count: 1,
    failed: [{ index: 1, code: 'VALIDATION_ERROR' }],
  });
  expect(listProblems(batch.body.data.failed[0]).sort()).toEqual(['city REQUIRED', 'scores UNKNOWN_FIELD']);
  const list = (query: Record<string, string>) => expectStatus(400, 'GET', records, { key, query });
  expect((await list({ sort: 'town' })).body.error.message).toContain('town');
  expect((await list({ filter: '{"field":"town","op":"eq","value":"Cork"}' })).body.error.message).toContain('town');
  expect((await list({ filter: '{"field":"city"' })).body.error.message).toContain('filter');
  expect((await list({ cursor: 'made-up' })).body.error.message).toContain('cursor');
  expect((await list({ fitler: '{}' })).body.error.details.fields[0]).toMatchObject({
    field: 'fitler',
    code: 'UNKNOWN_FIELD',
  });
  const [record] = batch.body.data.succeeded;
  const change = await expectStatus(422, 'PATCH', `${records}/${record.record.id}`, {
    key,
    body: { score: 'many', created_at: 'now', outcome: 'drawn' },
  });
  expect(fields(change).sort()).toEqual(['created_at READ_ONLY', 'outcome INVALID_OPTION', 'score INVALID_TYPE']);
});
