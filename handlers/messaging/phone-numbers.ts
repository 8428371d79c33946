// Phone numbers of a workspace: registered, changed and released.
import { v7 as uuidv7 } from 'uuid';
import * as db from '../../db/messaging/phone-numbers.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { readAddress } from '../../domain/messaging/addresses.ts';
import { countryOf } from '../../domain/objects/phone-numbers.ts';
import { configurationLimits } from '../../domain/service/request-limits.ts';
import type { components } from '../../generated/api.ts';
import { alreadyExists, conflict, found, problem, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { pageOfWhole } from '../../runtime/paging.ts';
import { recordChange, refuseFull } from '../../services/settings/setting-changes.ts';

export const listPhoneNumbers: Handler<'listPhoneNumbers'> = async (call) => {
  const { status, search } = call.request.query;
  const wanted = search?.trim().toLowerCase() ?? '';
  const numbers = (await db.listPhoneNumbers(call.db.sql, call.caller)).filter(
    (number) =>
      (status === undefined || number.status === status) &&
      `${number.phone_number}\n${number.friendly_name ?? ''}`.toLowerCase().includes(wanted),
  );
  const { rows, ...rest } = pageOfWhole(call, ['phone numbers', status, wanted], numbers, ({ id }) => id);
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
      [problem('capabilities', 'REQUIRED', 'capabilities must include at least one capability that is true')],
      400,
    );
  await refuseStranger(call, body.assigned_user_id);
  await db.lockPhoneNumbers(sql, caller.companyId);
  const numbers = (await db.listPhoneNumbers(sql, caller)).filter(({ status }) => status !== 'released');
  const twin = numbers.find((number) => number.phone_number === read.value);
  if (twin) throw alreadyExists(`The phone number ${read.value} is already registered.`, ['phone_number'], twin.id);
  refuseFull(numbers.length, configurationLimits.phoneNumbers, 'phone_number_limit_reached', 'phone numbers');
  const number: db.PhoneNumberRow = {
    id: uuidv7(),
    phone_number: read.value,
    friendly_name: body.friendly_name?.trim() ?? null,
    country: countryOf(read.value) ?? null,
    number_type: body.number_type,
    can_sms: sms,
    can_voice: voice,
    can_fax: fax,
    status: 'active',
    monthly_cost_minor: body.monthly_cost_minor,
    currency: body.currency ?? currency,
    is_default: body.is_default || (sms && !numbers.some((each) => each.is_default)),
    is_default_fax: body.is_default_fax || (fax && !numbers.some((each) => each.is_default_fax)),
    assigned_user_id: body.assigned_user_id ?? null,
    created_at: now,
    updated_at: now,
  };
  refuseMute(number);
  await makeDefaults(call, number, undefined);
  await db.insertPhoneNumber(sql, caller, number);
  recordChange(call, 'phone_number', undefined, toPhoneNumberResponse(number));
  return { status: 201, data: { phone_number: toPhoneNumberResponse(number) } };
};

export const updatePhoneNumber: Handler<'updatePhoneNumber'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  await refuseStranger(call, body.assigned_user_id);
  const before = await lockedNumber(call);
  if (before.status === 'released')
    throw conflict('not_active', `The phone number ${before.phone_number} was released and cannot be changed.`);
  const { friendly_name: name, assigned_user_id: userId } = body;
  const after: db.PhoneNumberRow = {
    ...before,
    friendly_name: name === undefined ? before.friendly_name : (name?.trim() ?? null),
    is_default: body.is_default ?? before.is_default,
    is_default_fax: body.is_default_fax ?? before.is_default_fax,
    assigned_user_id: userId === undefined ? before.assigned_user_id : userId,
    updated_at: now,
  };
  refuseMute(after);
  if ((before.is_default && !after.is_default) || (before.is_default_fax && !after.is_default_fax))
    throw conflict(
      'default_number',
      `${before.phone_number} is the default phone number. Make another phone number the default first.`,
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
    is_default: false,
    is_default_fax: false,
    updated_at: now,
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
  return found(numbers.find(({ id }) => id === path.id.toLowerCase()));
}

/** Where a number becomes a default, no other one is. */
async function makeDefaults(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  after: db.PhoneNumberRow,
  before: db.PhoneNumberRow | undefined,
): Promise<void> {
  for (const kind of ['is_default', 'is_default_fax'] as const)
    if (after[kind] && !before?.[kind]) await db.clearDefaultNumber(sql, caller, kind);
}

/** @throws ApiError 409 where a default cannot send what it is the default of */
function refuseMute(number: db.PhoneNumberRow): void {
  if ((number.is_default && !number.can_sms) || (number.is_default_fax && !number.can_fax))
    throw conflict(
      'cannot_send',
      `${number.phone_number} cannot be a default because it lacks the capability to send.`,
    );
}

/** @throws ApiError 422 for an id that no active user has */
async function refuseStranger({ caller, db: { sql } }: Pick<Call, 'db' | 'caller'>, userId: string | null | undefined) {
  if (userId && !(await isActiveUser(sql, caller.companyId, { id: userId })))
    throw validationFailed(
      [problem('assigned_user_id', 'NOT_FOUND', 'assigned_user_id must be the id of an active user')],
      422,
    );
}

function toPhoneNumberResponse(row: db.PhoneNumberRow): components['schemas']['PhoneNumber'] {
  return {
    id: row.id,
    phone_number: row.phone_number,
    friendly_name: row.friendly_name,
    country: row.country,
    number_type: row.number_type,
    capabilities: { sms: row.can_sms, voice: row.can_voice, fax: row.can_fax },
    status: row.status,
    monthly_cost_minor: row.monthly_cost_minor,
    currency: row.currency,
    is_default: row.is_default,
    is_default_fax: row.is_default_fax,
    assigned_user_id: row.assigned_user_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
