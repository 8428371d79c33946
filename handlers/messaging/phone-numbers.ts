// Phone numbers of a workspace: register, change and release.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/messaging/phone-numbers.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { findCountry } from '../../domain/objects/phone-numbers.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { alreadyExists, buildProblem, conflict, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';
import { recordChange, refuseFull } from '../../services/settings/setting-changes.ts';

export const listPhoneNumbers: Handler<'listPhoneNumbers'> = async (call) => {
  const { status, search } = call.request.query;
  const wanted = search?.trim().toLowerCase() ?? '';
  const numbers = (await db.listPhoneNumbers(call.db.sql, call.caller)).filter(
    (number) =>
      (status === undefined || number.status === status) &&
      `${number.phoneNumber}\n${number.friendlyName ?? ''}`.toLowerCase().includes(wanted),
  );
  const { rows, ...rest } = selectPage(call, ['phone numbers', status, wanted], numbers, ({ id }) => id);
  return { status: 200, data: { phone_numbers: rows.map(toPhoneNumberResponse), ...rest } };
};

export const createPhoneNumber: Handler<'createPhoneNumber'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { country, currency } = await call.services.loadWorkspace();
  const read = readAddress('phone', 'phone_number', body.phone_number, country);
  if ('problem' in read) throw validationFailed([read.problem], 400);
  const { sms, voice, fax } = body.capabilities;
  if (!sms && !voice && !fax)
    throw validationFailed(
      [buildProblem('capabilities', 'REQUIRED', 'capabilities must include at least one capability that is true')],
      400,
    );
  await assertActiveUser(call, body.assigned_user_id);
  await db.lockPhoneNumbers(sql, caller.companyId);
  const numbers = (await db.listPhoneNumbers(sql, caller)).filter(({ status }) => status !== 'released');
  const twin = numbers.find((number) => number.phoneNumber === read.value);
  if (twin) throw alreadyExists(`The phone number ${read.value} is already registered.`, ['phone_number'], twin.id);
  refuseFull(numbers.length, configurationLimits.phoneNumbers, 'phone_number_limit_reached', 'phone numbers');
  const number: db.PhoneNumberRow = {
    id: uuidv7(),
    phoneNumber: read.value,
    friendlyName: body.friendly_name?.trim() ?? null,
    country: findCountry(read.value) ?? null,
    numberType: body.number_type,
    canSms: sms,
    canVoice: voice,
    canFax: fax,
    status: 'active',
    monthlyCostMinor: body.monthly_cost_minor,
    currency: body.currency ?? currency,
    isDefault: body.is_default || (sms && !numbers.some((each) => each.isDefault)),
    isDefaultFax: body.is_default_fax || (fax && !numbers.some((each) => each.isDefaultFax)),
    assignedUserId: body.assigned_user_id ?? null,
    createdAt: now,
    updatedAt: now,
  };
  assertCanSend(number);
  await makeDefaults(call, number, undefined);
  await db.insertPhoneNumber(sql, caller, number);
  recordChange(call, 'phone_number', undefined, toPhoneNumberResponse(number));
  return { status: 201, data: { phone_number: toPhoneNumberResponse(number) } };
};

export const updatePhoneNumber: Handler<'updatePhoneNumber'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  await assertActiveUser(call, body.assigned_user_id);
  const before = await lockedNumber(call);
  if (before.status === 'released')
    throw conflict('not_active', `The phone number ${before.phoneNumber} was released and cannot be changed.`);
  const { friendly_name: name, assigned_user_id: userId } = body;
  const after: db.PhoneNumberRow = {
    ...before,
    friendlyName: name === undefined ? before.friendlyName : (name?.trim() ?? null),
    isDefault: body.is_default ?? before.isDefault,
    isDefaultFax: body.is_default_fax ?? before.isDefaultFax,
    assignedUserId: userId === undefined ? before.assignedUserId : userId,
    updatedAt: now,
  };
  assertCanSend(after);
  if ((before.isDefault && !after.isDefault) || (before.isDefaultFax && !after.isDefaultFax))
    throw conflict(
      'default_number',
      `${before.phoneNumber} is the default phone number. Make another phone number the default first.`,
    );
  if (!recordChange(call, 'phone_number', toPhoneNumberResponse(before), toPhoneNumberResponse(after)))
    return { status: 200, data: { phone_number: toPhoneNumberResponse(before) } };
  await makeDefaults(call, after, before);
  await db.updatePhoneNumber(sql, caller, after);
  return { status: 200, data: { phone_number: toPhoneNumberResponse(after) } };
};

export const releasePhoneNumber: Handler<'releasePhoneNumber'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const before = await lockedNumber(call);
  if (before.status === 'released') return { status: 200, data: { phone_number: toPhoneNumberResponse(before) } };
  const after: db.PhoneNumberRow = {
    ...before,
    status: 'released',
    isDefault: false,
    isDefaultFax: false,
    updatedAt: now,
  };
  await db.updatePhoneNumber(sql, caller, after);
  recordChange(call, 'phone_number', toPhoneNumberResponse(before), toPhoneNumberResponse(after));
  return { status: 200, data: { phone_number: toPhoneNumberResponse(after) } };
};

async function lockedNumber({
  caller,
  request: { path },
  db: { sql },
}: Call<'updatePhoneNumber'> | Call<'releasePhoneNumber'>): Promise<db.PhoneNumberRow> {
  await db.lockPhoneNumbers(sql, caller.companyId);
  const numbers = await db.listPhoneNumbers(sql, caller);
  return orNotFound(numbers.find(({ id }) => id === path.id.toLowerCase()));
}

/** If a number becomes a default, the previous one loses it. */
async function makeDefaults(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  after: db.PhoneNumberRow,
  before: db.PhoneNumberRow | undefined,
): Promise<void> {
  for (const kind of ['isDefault', 'isDefaultFax'] as const)
    if (after[kind] && !before?.[kind]) await db.clearDefaultNumber(sql, caller, kind);
}

/** @throws ApiError 409 if a default number cannot send its kind of message */
function assertCanSend(number: db.PhoneNumberRow): void {
  if ((number.isDefault && !number.canSms) || (number.isDefaultFax && !number.canFax))
    throw conflict('cannot_send', `${number.phoneNumber} cannot be a default because it lacks the capability to send.`);
}

/** @throws ApiError 422 if the id belongs to no active user */
async function assertActiveUser(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  userId: string | null | undefined,
) {
  if (userId && !(await isActiveUser(sql, caller.companyId, { id: userId })))
    throw validationFailed(
      [buildProblem('assigned_user_id', 'NOT_FOUND', 'assigned_user_id must be the id of an active user')],
      422,
    );
}

function toPhoneNumberResponse(row: db.PhoneNumberRow): components['schemas']['PhoneNumber'] {
  return {
    id: row.id,
    phone_number: row.phoneNumber,
    friendly_name: row.friendlyName,
    country: row.country,
    number_type: row.numberType,
    capabilities: { sms: row.canSms, voice: row.canVoice, fax: row.canFax },
    status: row.status,
    monthly_cost_minor: row.monthlyCostMinor,
    currency: row.currency,
    is_default: row.isDefault,
    is_default_fax: row.isDefaultFax,
    assigned_user_id: row.assignedUserId,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
