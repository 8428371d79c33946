// Phone numbers of a workspace. Callers that change them have locked them.
import type { Sql } from '../client/pool.ts';
import type { TenantScope } from '../client/tenant.ts';

export interface PhoneNumberRow {
  id: string;
  /** E.164. */
  phoneNumber: string;
  friendlyName: string | null;
  country: string | null;
  numberType: 'local' | 'mobile' | 'toll_free';
  canSms: boolean;
  canVoice: boolean;
  canFax: boolean;
  status: 'active' | 'pending' | 'suspended' | 'released';
  monthlyCostMinor: number;
  currency: string;
  isDefault: boolean;
  isDefaultFax: boolean;
  assignedUserId: string | null;
  createdAt: Date;
  updatedAt: Date;
}

const columns = [
  'id',
  'phone_number',
  'friendly_name',
  'country',
  'number_type',
  'can_sms',
  'can_voice',
  'can_fax',
  'status',
  'monthly_cost_minor',
  'currency',
  'is_default',
  'is_default_fax',
  'assigned_user_id',
  'created_at',
  'updated_at',
];

/** Locks the numbers of a company until the transaction ends. */
export async function lockPhoneNumbers(sql: Sql, companyId: string): Promise<void> {
  await sql`select from companies where id = ${companyId} for no key update`.execute();
}

/** Returns all numbers, the newest first. */
export async function listPhoneNumbers(sql: Sql, { companyId, testMode }: TenantScope): Promise<PhoneNumberRow[]> {
  return sql<PhoneNumberRow[]>`
    select ${sql(columns)} from phone_numbers
    where company_id = ${companyId} and test_mode = ${testMode} order by created_at desc, id desc`;
}

/** Returns an active number by its E.164 form. */
export async function findActiveNumber(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  phoneNumber: string,
): Promise<PhoneNumberRow | undefined> {
  const [row] = await sql<PhoneNumberRow[]>`
    select ${sql(columns)} from phone_numbers
    where company_id = ${companyId} and test_mode = ${testMode} and phone_number = ${phoneNumber} and status = 'active'`;
  return row;
}

/** Returns the number from which texts are sent if a draft names none. */
export async function findDefaultNumber(
  sql: Sql,
  { companyId, testMode }: TenantScope,
): Promise<PhoneNumberRow | undefined> {
  const [row] = await sql<PhoneNumberRow[]>`
    select ${sql(columns)} from phone_numbers
    where company_id = ${companyId} and test_mode = ${testMode} and is_default and status = 'active'`;
  return row;
}

export async function insertPhoneNumber(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  number: PhoneNumberRow,
): Promise<void> {
  await sql`insert into phone_numbers ${sql({ companyId, testMode, ...number })}`;
}

export async function updatePhoneNumber(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  { id, ...number }: PhoneNumberRow,
): Promise<void> {
  await sql`
    update phone_numbers set ${sql(number)}
    where company_id = ${companyId} and test_mode = ${testMode} and id = ${id}`;
}

/** Removes this default from the number that has it. */
export async function clearDefaultNumber(
  sql: Sql,
  { companyId, testMode }: TenantScope,
  kind: 'isDefault' | 'isDefaultFax',
): Promise<void> {
  await sql`
    update phone_numbers set ${sql(kind)} = false
    where company_id = ${companyId} and test_mode = ${testMode} and ${sql(kind)}`;
}
