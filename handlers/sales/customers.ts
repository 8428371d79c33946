// Profiles of customers, by id and by email.

import { findRecord } from '../../db/records/records.ts';
import { findCustomerByEmail, findCustomerProfile } from '../../db/sales/customers.ts';
import { getBuiltinObject } from '../../domain/objects/workspace.ts';
import { toEtag } from '../../domain/records/version.ts';
import { type IncludeGroup, parseInclude, showCustomer } from '../../domain/sales/customer-profile.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';

export const getCustomer: Handler<'getCustomer'> = async (call) => {
  const include = readInclude(call.request.query.include);
  const { customer, etag } = await readProfile(call, call.request.path.id, include);
  return { status: 200, etag, data: { customer } };
};

export const getCustomerByEmail: Handler<'getCustomerByEmail'> = async (call) => {
  const include = readInclude(call.request.query.include);
  const match = orNotFound(await findCustomerByEmail(call.db.sql, call.caller, call.request.query.email.toLowerCase()));
  const { customer, etag } = await readProfile(call, match.id, include);
  return { status: 200, etag, data: { customer, other_matches: match.others } };
};

/** @throws ApiError 400 for an unknown group */
function readInclude(text: string | undefined): ReadonlySet<IncludeGroup> {
  const { include, problems } = parseInclude(text ?? 'contacts');
  if (problems.length > 0) throw validationFailed(problems, 400);
  return include;
}

/** @throws ApiError 404 if the caller cannot see the customer */
async function readProfile(
  call: Call<'getCustomer'> | Call<'getCustomerByEmail'>,
  id: string,
  include: ReadonlySet<IncludeGroup>,
): Promise<{ customer: components['schemas']['Customer']; etag: string }> {
  const { caller } = call;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const object = getBuiltinObject('customers', workspace);
  const record = orNotFound(await findRecord(sql, caller, 'customers', id));
  const profile = orNotFound(await findCustomerProfile(sql, caller, record.id, include));
  return { customer: showCustomer(object, record, profile, include), etag: toEtag(record) };
}
