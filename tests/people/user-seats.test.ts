// Seats and administrators under concurrency: never too many users, always one administrator.
import { describe, expect, test } from 'vitest';
import { type Answer, call, expectStatus } from '../support/client.ts';
import { database, newTenant, newUser, type Tenant } from '../support/tenants.ts';
import { person } from '../support/users.ts';

const create = (tenant: Tenant, body = person()): Promise<Answer> =>
  call('POST', '/v1/users', { key: tenant.key, body });
const setStatus = (tenant: Tenant, id: string, status: string): Promise<Answer> =>
  call('PATCH', `/v1/users/${id}`, { key: tenant.key, body: { status } });

/** Returns a tenant with this number of seats and its admin as the only user. */
async function newTenantWithSeats(packageCode: string, purchased: number | null): Promise<Tenant> {
  const tenant = await newTenant();
  await database()`
    update subscriptions set package_code = ${packageCode}, seats = ${purchased} where company_id = ${tenant.companyId}`;
  return tenant;
}

async function activeUsers(tenant: Tenant): Promise<number> {
  const [row] = await database()<{ count: number }[]>`
    select count(*)::int as count from users where company_id = ${tenant.companyId} and status = 'active'`;
  return row?.count ?? -1;
}

const readCode = (answer: Answer): string => answer.body.error?.code ?? String(answer.status);
const countAnswers = (answers: Answer[], code: string): number =>
  answers.filter((answer) => readCode(answer) === code).length;

describe('seats', () => {
  test('enforces the seats below, at and above the limit, and says what to buy', async () => {
    const tenant = await newTenantWithSeats('starter', null);
    await newUser(tenant);
    // Inactive users occupy no seat.
    const idle = await newUser(tenant, { status: 'inactive' });
    expect((await create(tenant)).status).toBe(201);
    for (const refused of [await create(tenant), await setStatus(tenant, idle.id, 'active')]) {
      expect(refused.status).toBe(409);
      expect(refused.body.error).toMatchObject({
        code: 'SEAT_LIMIT_REACHED',
        details: { seats_used: 3, seats_allowed: 3, hint: expect.stringContaining('"seats": 4'), set_seats: 4 },
      });
    }
    await database()`update subscriptions set seats = 4 where company_id = ${tenant.companyId}`;
    expect((await setStatus(tenant, idle.id, 'active')).status).toBe(200);
    expect(readCode(await create(tenant))).toBe('SEAT_LIMIT_REACHED');
    // Deactivating a user frees the seat.
    expect((await setStatus(tenant, idle.id, 'inactive')).status).toBe(200);
    expect((await create(tenant)).status).toBe(201);
    expect(await activeUsers(tenant)).toBe(4);
  });

  test.each([
    ['starter', null, 3],
    ['starter', 2, 3],
    ['starter', 5, 5],
    ['growth', null, 10],
    ['scale', null, 25],
    ['enterprise', null, 100],
  ])('gives a company on %s with %s purchased seats %i users', async (packageCode, purchased, allowed) => {
    const tenant = await newTenantWithSeats(packageCode, purchased);
    const idle = await newUser(tenant, { status: 'inactive' });
    const sql = database();
    await sql`
      insert into users (company_id, id, email, full_name, created_at, updated_at)
      select ${tenant.companyId}, gen_random_uuid(), gen_random_uuid() || '@example.com', 'Crowd', now(), now()
      from generate_series(1, ${allowed - 2})`;
    expect((await setStatus(tenant, idle.id, 'active')).status).toBe(200);
    const refused = await create(tenant);
    expect(refused.body.error.details).toMatchObject({ seats_used: allowed, seats_allowed: allowed });
  });

  test('permits changes that need no seat while all are taken', async () => {
    const tenant = await newTenantWithSeats('starter', null);
    const [first] = [await newUser(tenant), await newUser(tenant), await newUser(tenant)];
    expect(await activeUsers(tenant)).toBe(4);
    await expectStatus(200, 'PATCH', `/v1/users/${first.id}`, { key: tenant.key, body: { status: 'active' } });
    await expectStatus(200, 'PATCH', `/v1/users/${first.id}`, { key: tenant.key, body: { full_name: 'Changed' } });
  });

  test('activates exactly k of 4k users under concurrent calls for k free seats', async () => {
    for (const free of [1, 4, 8]) {
      const tenant = await newTenantWithSeats('starter', 3 + free);
      await Promise.all([newUser(tenant), newUser(tenant)]);
      const idle = await Promise.all(Array.from({ length: 4 * free }, () => newUser(tenant, { status: 'inactive' })));
      const answers = await Promise.all(idle.map((user) => setStatus(tenant, user.id, 'active')));
      expect(answers.map(readCode).toSorted()).toEqual([
        ...Array(free).fill('200'),
        ...Array(3 * free).fill('SEAT_LIMIT_REACHED'),
      ]);
      expect(await activeUsers(tenant)).toBe(3 + free);
    }
  });

  test('shares free seats between concurrent creations and activations', async () => {
    const tenant = await newTenantWithSeats('starter', 5);
    const idle = await Promise.all(Array.from({ length: 8 }, () => newUser(tenant, { status: 'inactive' })));
    const answers = await Promise.all([
      ...idle.map((user) => setStatus(tenant, user.id, 'active')),
      ...Array.from({ length: 8 }, () => create(tenant)),
    ]);
    expect(countAnswers(answers, '200') + countAnswers(answers, '201')).toBe(4);
    expect(countAnswers(answers, 'SEAT_LIMIT_REACHED')).toBe(12);
    expect(await activeUsers(tenant)).toBe(5);
  });

  test('leaves no user behind after a rejection, so that the address stays free', async () => {
    const tenant = await newTenantWithSeats('starter', null);
    await Promise.all([newUser(tenant), newUser(tenant)]);
    const body = person();
    expect(readCode(await create(tenant, body))).toBe('SEAT_LIMIT_REACHED');
    await database()`update subscriptions set seats = 4 where company_id = ${tenant.companyId}`;
    expect((await create(tenant, body)).status).toBe(201);
  });
});

test('makes 24 concurrent creations wait for the processor and rejects none', async () => {
  const tenant = await newTenant();
  const creations = Array.from({ length: 24 }, () =>
    call('POST', '/v1/users', { key: tenant.key, body: person(), idempotencyKey: true }),
  );
  const reads = Array.from({ length: 24 }, () => call('GET', '/v1/users', { key: tenant.key }));
  expect((await Promise.all(creations)).map(readCode)).toEqual(Array(24).fill('201'));
  expect((await Promise.all(reads)).map(readCode)).toEqual(Array(24).fill('200'));
});

describe('one address', () => {
  test('creates one user for 32 concurrent creations with one address in a company', async () => {
    const tenant = await newTenant();
    const body = person();
    const answers = await Promise.all(Array.from({ length: 32 }, () => create(tenant, body)));
    expect([countAnswers(answers, '201'), countAnswers(answers, 'ALREADY_EXISTS')]).toEqual([1, 31]);
    expect(await activeUsers(tenant)).toBe(2);
  });

  test('creates one user for 32 concurrent creations with one address in four companies', async () => {
    const tenants = await Promise.all(Array.from({ length: 4 }, () => newTenant()));
    const body = person();
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, index) => create(tenants[index % 4] as Tenant, body)),
    );
    expect([countAnswers(answers, '201'), countAnswers(answers, 'ALREADY_EXISTS')]).toEqual([1, 31]);
  });
});

describe('the last active Company_Admin', () => {
  const refusal = { code: 'CONFLICT', details: { reason: 'last_admin' } };

  test('rejects deactivating or demoting the last administrator', async () => {
    const tenant = await newTenant();
    await newUser(tenant, { role: 'Company_Admin', status: 'inactive' });
    await newUser(tenant);
    for (const body of [{ status: 'inactive' }, { role: 'Viewer' }, { role: 'Viewer', status: 'inactive' }]) {
      const answer = await expectStatus(409, 'PATCH', `/v1/users/${tenant.admin.id}`, { key: tenant.key, body });
      expect(answer.body.error).toMatchObject(refusal);
    }
    const rename = { full_name: 'Ada A. Admin', role: 'Company_Admin', status: 'active' };
    await expectStatus(200, 'PATCH', `/v1/users/${tenant.admin.id}`, { key: tenant.key, body: rename });
  });

  test('lets the first of two administrators go and keeps the second', async () => {
    const tenant = await newTenant();
    const second = await newUser(tenant, { role: 'Company_Admin' });
    expect((await setStatus(tenant, tenant.admin.id, 'inactive')).status).toBe(200);
    expect((await setStatus(tenant, second.id, 'inactive')).body.error).toMatchObject(refusal);
  });

  test('keeps one administrator when all are deactivated or demoted concurrently', async () => {
    for (let round = 0; round < 10; round += 1) {
      const tenant = await newTenant();
      const others = await Promise.all(
        Array.from({ length: 1 + (round % 3) }, () => newUser(tenant, { role: 'Company_Admin' })),
      );
      const all = [tenant.admin, ...others];
      const answers = await Promise.all(
        all.map((user, index) =>
          call('PATCH', `/v1/users/${user.id}`, {
            key: tenant.key,
            body: (index + round) % 2 === 0 ? { status: 'inactive' } : { role: 'Viewer' },
          }),
        ),
      );
      expect([countAnswers(answers, '200'), countAnswers(answers, 'CONFLICT')]).toEqual([all.length - 1, 1]);
      const [row] = await database()<{ count: number }[]>`
        select count(*)::int as count from users u
        join user_roles ur on ur.company_id = u.company_id and ur.user_id = u.id
        join roles r on r.id = ur.role_id and r.name = 'Company_Admin'
        where u.company_id = ${tenant.companyId} and u.status = 'active'`;
      expect(row?.count).toBe(1);
    }
  });
});
