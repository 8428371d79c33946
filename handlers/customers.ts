// Profiles of customers, by id and by email.
import { findCustomerByEmail, findCustomerProfile, type ProfileGroup } from '../db/customers.ts';
import { findRecord } from '../db/records.ts';
import { type IncludeGroup, parseInclude, showCustomer } from '../domain/customer-profile.ts';
import { etagOf } from '../domain/record-version.ts';
import type { components } from '../generated/api.ts';
import { notFound, validationFailed } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

export const getCustomer: Handler<'getCustomer'> = async (call) => {
  const include = includeOf(call.query.include);
  const { customer, etag } = await profileOf(call, call.path.id, include);
  return { status: 200, etag, data: { customer } };
};

export const getCustomerByEmail: Handler<'getCustomerByEmail'> = async (call) => {
  const include = includeOf(call.query.include);
  const match = await findCustomerByEmail(call.sql, call.caller, call.query.email.toLowerCase());
  if (!match) throw notFound();
  const { customer, etag } = await profileOf(call, match.id, include);
  return { status: 200, etag, data: { customer, other_matches: match.others } };
};

/** @throws ApiError 400 for a group that there is not */
function includeOf(text: string | undefined): ReadonlySet<IncludeGroup> {
  const { include, problems } = parseInclude(text ?? 'contacts');
  if (problems.length > 0) throw validationFailed(problems, 400);
  return include;
}

/** @throws ApiError 404 for a customer that the caller cannot see */
async function profileOf(
  call: Call<'getCustomer'> | Call<'getCustomerByEmail'>,
  id: string,
  include: ReadonlySet<IncludeGroup>,
): Promise<{ customer: components['schemas']['Customer']; etag: string }> {
  const { sql, caller } = call;
  const workspace = await call.workspace();
  const object = workspace.objects.get('customers');
  if (!object) throw new Error('every workspace has customers');
  const record = await findRecord(sql, caller, 'customers', id);
  const profile = record && (await findCustomerProfile(sql, caller, record.id, include as ReadonlySet<ProfileGroup>));
  if (!record || !profile) throw notFound();
  return { customer: showCustomer(object, record, profile, include, workspace), etag: etagOf(record) };
}
