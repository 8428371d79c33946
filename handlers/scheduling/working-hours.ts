// Working hours and days off of users.
import { findMembers, lockMember, type MemberRow, saveHours } from '../../db/scheduling/members.ts';
import { findDefaultPolicy } from '../../db/scheduling/policies.ts';
import {
  findDateProblems,
  findDayOffProblems,
  findTimezoneProblems,
  findWindowProblems,
} from '../../domain/scheduling/policies.ts';
import { diffSettings } from '../../domain/settings/setting-changes.ts';
import type { components } from '../../generated/api.ts';
import { orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { openUser } from '../../services/people/own-user.ts';
import { findHours } from '../../services/scheduling/bookable-users.ts';

type Hours = components['schemas']['WorkingHours'];

export const getWorkingHours: Handler<'getWorkingHours'> = async (call) => {
  return { status: 200, data: { working_hours: await toWorkingHoursResponse(call, await findMember(call)) } };
};

export const updateWorkingHours: Handler<'updateWorkingHours'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const daysOff = body.days_off?.map(({ from, to, reason }) => ({ from, to, reason }));
  const problems = [
    ...(body.timezone === undefined ? [] : findTimezoneProblems('timezone', body.timezone)),
    ...findWindowProblems('weekly', body.weekly ?? []),
    ...findDayOffProblems(daysOff ?? []),
    ...findDateProblems(body.dates ?? []),
  ];
  if (problems.length > 0) throw validationFailed(problems, 400);
  const { id } = await findMember(call);
  await lockMember(sql, caller.companyId, id);
  const member = await findMember(call);
  const before = await toWorkingHoursResponse(call, member);
  // If only days off or single dates are set, the user keeps the hours of the default policy.
  const getsOwnHours = before.is_own || body.timezone !== undefined || body.weekly !== undefined;
  const hours = {
    timezone: getsOwnHours ? (body.timezone ?? before.timezone) : null,
    weekly: getsOwnHours ? (body.weekly ?? before.weekly) : null,
    daysOff: daysOff ?? member.daysOff ?? [],
    dates: body.dates ?? member.dates ?? [],
  };
  await saveHours(sql, caller.companyId, id, hours, now);
  const after = await toWorkingHoursResponse(call, await findMember(call));
  const changes = diffSettings({ ...before }, { ...after });
  call.db.record({ action: 'user.working_hours.update', object: 'users', recordId: member.id, changes });
  return { status: 200, data: { working_hours: after } };
};

/**
 * @throws ApiError 404 if the user does not exist or is not visible; 403 if the caller may not
 * manage it
 */
async function findMember(call: Call<'getWorkingHours'> | Call<'updateWorkingHours'>): Promise<MemberRow> {
  openUser(call);
  const [member] = await findMembers(call.db.sql, call.caller, [call.request.path.id]);
  return orNotFound(member);
}

async function toWorkingHoursResponse(
  { caller, db: { sql } }: Pick<Call, 'db' | 'caller'>,
  member: MemberRow,
): Promise<Hours> {
  const standard = member.timezone === null ? await findDefaultPolicy(sql, caller.companyId) : undefined;
  const { timezone, weekly } = findHours(member, undefined, standard);
  return {
    user_id: member.id,
    timezone,
    weekly: [...weekly],
    days_off: member.daysOff ?? [],
    dates: (member.dates ?? []).map(({ date, windows }) => ({ date, windows: [...windows] })),
    is_own: member.timezone !== null,
    updated_at: member.updatedAt?.toISOString() ?? null,
  };
}
