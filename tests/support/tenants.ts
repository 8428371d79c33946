// New tenants, inserted directly, so that each test has its own at little cost.
import { randomBytes, randomUUID, scryptSync } from 'node:crypto';
import postgres from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { inject } from 'vitest';
import { rowNames } from '../../db/client/row-names.ts';
import { createCompany } from '../../db/onboarding/onboarding.ts';
import {
  activityTypes,
  dealStatuses,
  leadStatuses,
  pipelineName,
  taskTypes,
} from '../../domain/onboarding/defaults.ts';
import { buildStandardPolicy } from '../../domain/scheduling/policies.ts';
import { newApiKey, sha256 } from '../../runtime/credentials/secrets.ts';

export const adminPassword = 'correct horse battery staple';

/** Hashes at the minimum cost, as the servers of tests do (cheap-passwords.ts). */
function cheapHash(password: string): string {
  const cost = { N: 2, r: 1, p: 1 };
  const salt = randomBytes(16);
  const key = scryptSync(password, salt, 32, cost);
  return `scrypt$${cost.N}$${cost.r}$${cost.p}$${salt.toString('base64')}$${key.toString('base64')}`;
}

const passwordHash = cheapHash(adminPassword);

let connection: postgres.Sql | undefined;
let rowConnection: postgres.Sql | undefined;

/** Returns the database as its owner, to prepare data and to check the rows of a call. */
export function database(): postgres.Sql {
  connection ??= postgres(inject('databaseUrl'), { max: 2, onnotice: () => undefined });
  return connection;
}

/** Does the same for functions of db/, which expect rows with camelCase names. */
export function rowDatabase(): postgres.Sql {
  rowConnection ??= connectForRows(inject('databaseUrl'));
  return rowConnection;
}

const connectForRows = (url: string) => postgres(url, { max: 2, onnotice: () => undefined, transform: rowNames });

/** Makes this test file use another database, until called with undefined. */
export async function useDatabase(url: string | undefined): Promise<void> {
  await Promise.all([connection?.end({ timeout: 1 }), rowConnection?.end({ timeout: 1 })]);
  connection = url === undefined ? undefined : postgres(url, { max: 2, onnotice: () => undefined });
  rowConnection = url === undefined ? undefined : connectForRows(url);
}

export interface Tenant {
  companyId: string;
  branchId: string;
  admin: { id: string; email: string };
  /** A live key with every scope. */
  key: string;
  /** A test key with every scope. */
  testKey: string;
}

/**
 * Creates a company with its defaults, an admin who can sign in, and a live and a test key with
 * every scope.
 */
export async function newTenant(name = 'Tenant'): Promise<Tenant> {
  const companyId = uuidv7();
  const admin = { id: uuidv7(), email: `admin-${randomUUID()}@example.com` };
  const now = new Date();
  const company = {
    ...nowhere,
    id: companyId,
    name,
    email: 'office@example.com',
    region: 'europe',
    industry: 'Testing',
    timezone: 'Europe/Berlin',
    currency: 'EUR',
  };
  const trial = { packageCode: 'growth', endsAt: new Date(now.getTime() + 14 * 86_400_000) };
  const created = await rowDatabase().begin((sql) =>
    createCompany(
      sql,
      company,
      {
        id: admin.id,
        email: admin.email,
        fullName: 'Ada Admin',
        passwordHash,
        mustChangePassword: false,
        metadata: {},
      },
      {
        pipelineName,
        dealStatuses,
        leadStatuses,
        activityTypes,
        taskTypes,
        sources: [],
        trial,
        policy: buildStandardPolicy(company.timezone),
      },
      now,
    ),
  );
  // Higher limits than any plan, for tests with many calls and users. Tests of limits set their
  // own.
  await database()`update subscriptions set api_rate_limit_per_minute = 1000000, seats = 1000 where company_id = ${companyId}`;
  const tenant = { companyId, branchId: created?.branchId ?? '', admin };
  const [key, testKey] = await Promise.all([newKey(tenant), newKey(tenant, { environment: 'test' })]);
  return { ...tenant, key, testKey };
}

const nowhere = { phone: null, website: null, address: null, city: null, state: null, country: null, postalCode: null };

export interface KeyOptions {
  scopes?: string[];
  environment?: 'live' | 'test';
  /** Uses the legacy prefix. */
  legacy?: boolean;
  ipAllowlist?: string[];
  expiresAt?: Date;
  revokedAt?: Date;
  reach?: { kind: 'branch' | 'team'; id: string };
  perMinute?: number;
  perHour?: number;
  writeMode?: 'direct' | 'propose';
}

/** Creates a further key of a tenant, with all scopes by default. */
export async function newKey(tenant: Pick<Tenant, 'companyId'>, options: KeyOptions = {}): Promise<string> {
  const environment = options.environment ?? 'live';
  const made = newApiKey(environment);
  const key = options.legacy ? made.key.replace(/^svc/, 'legacy') : made.key;
  const id = uuidv7();
  const sql = database();
  await sql`
    with key as (
      insert into api_keys (company_id, id, key_hash, name, environment, prefix, last4, scopes, rate_limit_per_minute, rate_limit_per_hour, ip_allowlist,
        reach_kind, reach_id, expires_at, created_by_id, created_at, updated_at, revoked_at, is_legacy, write_mode)
      values (${tenant.companyId}, ${id}, ${sha256(key)}, 'Test key', ${environment}, ${key.slice(0, -32)}, ${key.slice(-4)}, ${options.scopes ?? ['*']},
        ${options.perMinute ?? 6000}, ${options.perHour ?? 200_000}, ${options.ipAllowlist ?? []}, ${options.reach?.kind ?? 'company'}, ${options.reach?.id ?? null}, ${options.expiresAt ?? null},
        'test', now(), now(), ${options.revokedAt ?? null}, ${options.legacy ?? false}, ${options.writeMode ?? 'direct'})
    ), usage as (insert into api_key_usage (company_id, api_key_id) values (${tenant.companyId}, ${id}))
    insert into api_key_places (key_hash, company_id) values (${sha256(key)}, ${tenant.companyId})`;
  return key;
}

/** Creates a platform key with the scope onboarding. */
export function newPlatformKey(options: KeyOptions = {}): Promise<string> {
  return newKey({ companyId: '00000000-0000-7000-8000-000000000000' }, { scopes: ['onboarding'], ...options });
}

/** Returns platform keys in turn, because each may call check-email only ten times a minute. */
export async function platformKeys(): Promise<() => string> {
  const keys = await Promise.all(Array.from({ length: 20 }, () => newPlatformKey()));
  let turn = 0;
  return () => {
    turn = (turn + 1) % keys.length;
    return keys[turn] as string;
  };
}

/** Creates a further user of a tenant. */
export async function newUser(
  tenant: Tenant,
  options: {
    status?: 'active' | 'inactive';
    branchId?: string;
    teamId?: string;
    createdAt?: Date;
    role?: string;
  } = {},
): Promise<{ id: string; email: string }> {
  const id = uuidv7();
  const email = `user-${id}@example.com`;
  const sql = database();
  await sql`
    with person as (
      insert into users (company_id, id, email, full_name, status, branch_id, team_id, created_at, updated_at)
      values (${tenant.companyId}, ${id}, ${email}, 'Uma User', ${options.status ?? 'active'}, ${options.branchId ?? tenant.branchId}, ${options.teamId ?? null}, ${options.createdAt ?? new Date()}, now())
    ), place as (insert into user_places (user_id, company_id) values (${id}, ${tenant.companyId}))
    insert into user_roles (company_id, user_id, role_id) select ${tenant.companyId}, ${id}, id from roles where name = ${options.role ?? 'Sales_Rep'}`;
  return { id, email };
}
