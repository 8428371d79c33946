// Profiles of customers, by id and by email.

import { findRecord } from '../../db/records/records.ts';
import { findCustomerByEmail, findCustomerProfile } from '../../db/sales/customers.ts';
import { builtinOf } from '../../domain/objects/workspace.ts';
import { etagOf } from '../../domain/records/version.ts';
import { type IncludeGroup, parseInclude, showCustomer } from '../../domain/sales/customer-profile.ts';
import type { components } from '../../generated/api.ts';
import { found, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';

export const getCustomer: Handler<'getCustomer'> = async (call) => {
  const include = includeOf(call.request.query.include);
  const { customer, etag } = await profileOf(call, call.request.path.id, include);
  return { status: 200, etag, data: { customer } };
};

export const getCustomerByEmail: Handler<'getCustomerByEmail'> = async (call) => {
  const include = includeOf(call.request.query.include);
  const match = found(await findCustomerByEmail(call.db.sql, call.caller, call.request.query.email.toLowerCase()));
  const { customer, etag } = await profileOf(call, match.id, include);
  return { status: 200, etag, data: { customer, other_matches: match.others } };
};

/** @throws ApiError 400 for an unknown group */
function includeOf(text: string | undefined): ReadonlySet<IncludeGroup> {
  const { include, problems } = parseInclude(text ?? 'contacts');
  if (problems.length > 0) throw validationFailed(problems, 400);
  return include;
}

/** @throws ApiError 404 if the caller cannot see the customer */
async function profileOf(
  call: Call<'getCustomer'> | Call<'getCustomerByEmail'>,
  id: string,
  include: ReadonlySet<IncludeGroup>,
): Promise<{ customer: components['schemas']['Customer']; etag: string }> {
  const { caller } = call;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = builtinOf('customers', workspace);
  const record = found(await findRecord(sql, caller, 'customers', id));
  const profile = found(await findCustomerProfile(sql, caller, record.id, include));
  return { customer: showCustomer(object, record, profile, include), etag: etagOf(record) };
}
