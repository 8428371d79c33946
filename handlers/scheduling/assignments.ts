// The next member of a pool: read, and assign.
import { v7 as uuidv7 } from 'uuid';
import { countTurn, findTurns, insertAssignment, lockTurns } from '../../db/scheduling/pools.ts';
import { chooseMember } from '../../domain/scheduling/assignment.ts';
import { canTake, type SlotDemand, type SlotRejection } from '../../domain/scheduling/slots.ts';
import type { components } from '../../generated/api.ts';
import { conflict, orNotFound } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { requireAboutRecord } from '../../services/records/about-record.ts';
import { type Person, toSlotDemand } from '../../services/scheduling/bookable-users.ts';
import { type OpenPool, openPool } from '../../services/scheduling/slot-offers.ts';

type Reason = components['schemas']['UnavailableReason'];

/** The eligible members of a pool, and why the others are excluded. */
interface Choice {
  eligible: Set<string>;
  excluded: { user_id: string; reason: Reason }[];
}

export const getSchedulingSuggestion: Handler<'getSchedulingSuggestion'> = async (call) => {
  const { query } = call.request;
  const at = query.at === undefined ? undefined : Date.parse(query.at);
  const opened = await openPoolAt(call, query.policy_id, at);
  const choice = findEligible(opened, at, []);
  const userId = chooseMember(opened.strategy, opened.candidates, choice.eligible);
  if (userId === undefined) throw noEligibleMember(opened, choice);
  return {
    status: 200,
    data: {
      pool_id: opened.pool.id,
      policy_id: opened.policy.id,
      at: at === undefined ? null : new Date(at).toISOString(),
      user: { id: userId, full_name: findFullName(opened, userId) },
      strategy: opened.strategy,
      eligible_user_ids: opened.people.map((person) => person.userId).filter((id) => choice.eligible.has(id)),
      excluded: choice.excluded,
    },
  };
};

export const createSchedulingAssignment: Handler<'createSchedulingAssignment'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const body = call.request.body ?? {};
  const about = await requireAboutRecord(call, body);
  const at = body.at === undefined ? undefined : Date.parse(body.at);
  // Locked before any other read, so that all earlier turns are visible.
  const rotation = orNotFound(await lockTurns(sql, caller.companyId, path.id));
  const opened = await openPoolAt(call, body.policy_id, at);
  const choice = findEligible(opened, at, body.exclude_user_ids ?? []);
  const userId = chooseMember(opened.strategy, opened.candidates, choice.eligible);
  if (userId === undefined) throw noEligibleMember(opened, choice);
  const pool = { id: opened.pool.id, rotation };
  await countTurn(sql, caller, pool, userId);
  const turns = await findTurns(sql, caller, pool);
  const assignment = {
    id: uuidv7(),
    poolId: pool.id,
    policyId: opened.policy.id,
    userId,
    strategy: opened.strategy,
    rotationIndex: [...turns.values()].reduce((sum, count) => sum + count, 0),
    ...about,
  };
  await insertAssignment(sql, caller, assignment, now);
  call.db.record({
    action: 'scheduling.assign',
    object: about.object ?? 'scheduling_pools',
    recordId: about.recordId ?? pool.id,
    metadata: { pool_id: pool.id, user_id: userId, rotation_index: assignment.rotationIndex },
  });
  return {
    status: 201,
    data: {
      assignment: {
        id: assignment.id,
        pool_id: pool.id,
        policy_id: assignment.policyId,
        user_id: userId,
        user_name: findFullName(opened, userId),
        strategy: opened.strategy,
        rotation_index: assignment.rotationIndex,
        object: about.object,
        record_id: about.recordId,
        assigned_at: now.toISOString(),
        test_mode: caller.testMode,
      },
    },
  };
};

type TurnCall = Call<'getSchedulingSuggestion'> | Call<'createSchedulingAssignment'>;

/** Opens the pool with the busy intervals around a time, by default now. */
function openPoolAt(call: TurnCall, policyId: string | undefined, at: number | undefined): Promise<OpenPool> {
  const start = at ?? call.now.getTime();
  return openPool(call, call.request.path.id, policyId, { start, end: start + 1 }, { separateBuffers: true });
}

function findEligible(opened: OpenPool, at: number | undefined, without: readonly string[]): Choice {
  const choice: Choice = { eligible: new Set(), excluded: [] };
  const left = new Set(without.map((id) => id.toLowerCase()));
  const readable = new Map(opened.people.map((person) => [person.userId, person]));
  const unknown = new Map(opened.unknown.map((each) => [each.user_id, each.reason]));
  for (const { user_id, is_active } of opened.pool.members) {
    const person = readable.get(user_id);
    const reason = !is_active
      ? 'user_inactive'
      : left.has(user_id)
        ? 'excluded_by_caller'
        : (unknown.get(user_id) ??
          (person && at !== undefined ? findRejection(person, toSlotDemand(opened.policy), at) : undefined));
    if (reason) choice.excluded.push({ user_id, reason });
    else if (person) choice.eligible.add(user_id);
  }
  return choice;
}

/** Returns why a person cannot be booked; `buffer` only if nothing but buffers is in the way. */
function findRejection(person: Person, demand: SlotDemand, start: number): SlotRejection | undefined {
  const refusal = canTake(person, demand, start);
  if (refusal !== 'buffer') return refusal;
  const end = start + demand.durationMinutes * 60_000;
  const taken = person.busy.find((busy) => busy.reason !== 'buffer' && busy.start < end && busy.end > start);
  return taken?.reason ?? 'buffer';
}

const noEligibleMember = ({ pool }: OpenPool, { excluded }: Choice) =>
  conflict('no_eligible_rep', `No member of the pool ${pool.name} is available at this time.`, { excluded });

function findFullName({ people }: OpenPool, userId: string): string {
  return people.find((person) => person.userId === userId)?.fullName ?? '';
}
