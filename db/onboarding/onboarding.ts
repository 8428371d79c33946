// Creates a company with everything it starts with, inside the caller's transaction.
import { v7 as uuidv7 } from 'uuid';
import type { PolicySettings } from '../../domain/scheduling/policies.ts';
import { findSignInPlace, insertUserPlace } from '../access/places.ts';
import type { Sql } from '../client/pool.ts';
import { enterTenant } from '../client/tenant.ts';
import { insertMail } from '../messaging/mails.ts';
import { insertPolicy } from '../scheduling/policies.ts';
import { insertPipeline } from '../settings/pipelines.ts';

export interface NewCompany {
  id: string;
  name: string;
  email: string;
  phone: string | null;
  website: string | null;
  address: string | null;
  city: string | null;
  state: string | null;
  country: string | null;
  postalCode: string | null;
  region: string;
  industry: string;
  timezone: string;
  currency: string;
}

export interface NewAdmin {
  id: string;
  email: string;
  fullName: string;
  passwordHash: string;
  mustChangePassword: boolean;
  metadata: object;
  /** True: a welcome mail is sent. */
  isWelcomed?: boolean;
}

export interface Defaults {
  /** The name of the default pipeline, which has the stages `dealStatuses`. */
  pipelineName: string;
  dealStatuses: readonly { name: string; outcome: string }[];
  leadStatuses: readonly { name: string; outcome: string }[];
  activityTypes: readonly string[];
  taskTypes: readonly string[];
  sources: readonly string[];
  trial: { packageCode: string; endsAt: Date };
  policy: PolicySettings;
}

/**
 * Inserts the company and everything that belongs to it. The address of the administrator comes
 * last: if it is in use, all of the work was done anyway, so that a rejection takes as long as a
 * success.
 * @returns the default branch; null if a user already signs in with the administrator's address
 */
export async function createCompany(
  sql: Sql,
  company: NewCompany,
  admin: NewAdmin,
  defaults: Defaults,
  now: Date,
): Promise<{ branchId: string } | null> {
  const branchId = uuidv7();
  await enterTenant(sql, { companyId: company.id, testMode: false });
  await sql`
    insert into companies (id, name, email, phone, website, address, city, state, country, postal_code, region, industry, timezone, currency, created_at, updated_at)
    values (${company.id}, ${company.name}, ${company.email}, ${company.phone}, ${company.website}, ${company.address}, ${company.city}, ${company.state},
      ${company.country}, ${company.postalCode}, ${company.region}, ${company.industry}, ${company.timezone}, ${company.currency}, ${now}, ${now})`;
  await sql`
    insert into subscriptions (company_id, status, package_code, trial_ends_at, period_start, period_end, due_at, created_at, updated_at)
    values (${company.id}, 'trialing', ${defaults.trial.packageCode}, ${defaults.trial.endsAt}, ${now}, ${defaults.trial.endsAt}, ${defaults.trial.endsAt}, ${now},
      ${now})`;
  await sql`
    insert into branches (company_id, id, name, is_default, created_at)
    values (${company.id}, ${branchId}, 'Main Branch', true, ${now})`;
  await sql`
    insert into users (company_id, id, email, full_name, branch_id, metadata, created_at, updated_at)
    values (${company.id}, ${admin.id}, ${admin.email}, ${admin.fullName}, ${branchId}, ${sql.json(admin.metadata as never)}, ${now}, ${now})`;
  await sql`
    insert into user_roles (company_id, user_id, role_id)
    select ${company.id}, ${admin.id}, id from roles where name = 'Company_Admin'`;
  const pipeline = { id: uuidv7(), name: defaults.pipelineName, isDefault: true, orderPosition: 1 };
  await insertPipeline(sql, company.id, { ...pipeline, createdAt: now, updatedAt: now }, defaults.dealStatuses);
  await insertLeadStatuses(sql, company.id, defaults, now);
  await insertPolicy(sql, company.id, { id: uuidv7(), ...defaults.policy, createdAt: now, updatedAt: now });
  const types = defaults.activityTypes.map((name, index) => ({
    companyId: company.id,
    id: uuidv7(),
    name,
    isSystem: true,
    orderPosition: index + 1,
  }));
  await sql`insert into activity_types ${sql(types)}`;
  const taskTypes = defaults.taskTypes.map((name, index) => ({
    companyId: company.id,
    id: uuidv7(),
    name,
    orderPosition: index + 1,
  }));
  await sql`insert into task_types ${sql(taskTypes)}`;
  const sources = defaults.sources.map((name) => ({
    companyId: company.id,
    id: uuidv7(),
    name,
    createdAt: now,
    updatedAt: now,
  }));
  if (sources.length > 0) await sql`insert into sources ${sql(sources)}`;
  await sql`
    insert into duplicate_checks (company_id, object, enabled, fields)
    values (${company.id}, 'leads', false, '{}'), (${company.id}, 'deals', false, '{}')`;
  if (admin.isWelcomed) {
    const data = { full_name: admin.fullName, company_name: company.name };
    await insertMail(sql, { companyId: company.id, recipient: admin.email, template: 'welcome', data }, now);
  }
  await sql`
    insert into sign_ins (email, company_id, user_id, password_hash, must_change_password, created_at)
    values (${admin.email}, ${company.id}, ${admin.id}, ${admin.passwordHash}, ${admin.mustChangePassword}, ${now})`;
  return (await insertUserPlace(sql, company.id, admin.id, admin.email)) ? { branchId } : null;
}

async function insertLeadStatuses(sql: Sql, companyId: string, defaults: Defaults, now: Date): Promise<void> {
  const rows = defaults.leadStatuses.map((status, index) => ({
    companyId,
    id: uuidv7(),
    ...status,
    object: 'leads',
    orderPosition: index + 1,
    createdAt: now,
    updatedAt: now,
  }));
  await sql`insert into statuses ${sql(rows)}`;
}

/** Returns true if a user of any company signs in with this address. For the platform role. */
export async function signInExists(sql: Sql, email: string): Promise<boolean> {
  return (await findSignInPlace(sql, email)) !== undefined;
}
