// Named points of writes, dispatcher and webhook senders, recognized by passing statements.
import { readSeed } from '../../support/seed.ts';
import type { Link, Passed, Watcher } from './proxy.ts';

/** Sets the tenant. If the call claims a key, the statement names the call as well. */
export const preamble = 'preamble, API key version and stored response';

/** The statements of a write with an Idempotency-Key in order, with the pattern of each. */
export const statements = {
  'begin and locks of the key': /^select case when .* pg_try_advisory_xact_lock\(/s,
  [preamble]: /^select (case\s+when )?set_config\('app\.company_id'/,
  change: /\b(insert into|update|delete from) "?(accounts|leads)\b/,
  'audit row': /^insert into audit_logs/,
  event: /^insert into outbox_events/,
  'stored response': /^insert into idempotency_records/,
  commit: /^select case when set_config\('app\.deadline'/,
} as const;

/** Statements of the dispatcher, on its own connections. */
const dispatches = {
  'query for pending events': /^select company_id, .* from "outbox_events"/s,
  'begin of a dispatch': /^select (case\s+when )?set_config\('app\.company_id'/,
  'lock of the feed': /^select last_position as last from feeds/,
  'claim of events': /^with taken as/,
  'advance of the feed': /^update feeds set last_position/,
  'insert of a backlog': /^insert into webhook_backlog/,
  'commit of a dispatch': /^select case when set_config\('app\.deadline'/,
} as const;

/** Statements that take deliveries and record outcomes, on the senders' own connections. */
const sendings = {
  'query for due webhooks': /^select company_id, .* from webhook_subscriptions\s+where due_at/s,
  'begin of a sender': /^select (case\s+when )?set_config\('app\.company_id'/,
  'lock of a webhook': /^select url, sealed_secret/,
  'count of deliveries in flight': /^select count\(\*\)::int as in_flight/,
  'claim of deliveries': /^with due as materialized/,
  'end of a scan': /^update webhook_subscriptions\s+set recent_attempts/,
  'lock of the health': /^select failing_since/,
  'outcome of an attempt': /^update webhook_deliveries d\s+set status = /,
  'last delivery of a webhook': /^update webhook_subscriptions\s+set last_delivery_at/,
  'commit of a sender': /^select case when set_config\('app\.deadline'/,
} as const;

/**
 * Statements that create deliveries, on the senders' connections. Begin and commit are those of a
 * sender.
 */
const matchings = {
  'query for backlogs': /^select company_id, .* from "webhook_backlog"/s,
  'lock of a backlog': /^select first_position as first.*for update/s,
  'reading of events': /^select position, id, event/,
  'insert of deliveries': /^insert into webhook_deliveries/,
  'due time of webhooks': /^update webhook_subscriptions\s+set due_at = case/,
  'removal of a backlog': /^delete from webhook_backlog/,
} as const;

/** Statements of a call around a payment, including the tables of the test provider. */
export const payments = {
  'lock of the subscription': /^select .* from "subscriptions" .* for no key update/s,
  operation: /^insert into billing_operations/,
  'lease of the key': /^insert into idempotency_records .*leased_until\)/s,
  charge: /^insert into test_charges/,
  'query of the charge': /^select .* from test_charges/s,
  outcome: /^update billing_operations set status/,
  'new subscription': /^update "subscriptions" set/,
  invoice: /^insert into "?invoices/,
  'audit row': /^insert into audit_logs/,
  'stored response': /^insert into idempotency_records .*created_at\)/s,
} as const;

/** Statements of a call around Stripe requests, and those that store the state of Stripe. */
export const stripePayments = {
  operation: payments.operation,
  'lease of the key': payments['lease of the key'],
  'customer at Stripe': /^select customer_id/,
  'begin of a synchronization': /^update provider_customers set asked/,
  'end of a synchronization': /^update provider_customers\s+set written/,
  'new subscription': payments['new subscription'],
  'mirrored invoice': /^insert into invoices .*on conflict/s,
  outcome: payments.outcome,
  'audit row': payments['audit row'],
  'stored response': payments['stored response'],
} as const;

/** Statements that take and finish a calendar operation, on their own connections. */
const calendarOrders = {
  'claim of a calendar operation': /^update calendar_orders set attempts/,
  'query of the booking': /^select start_at, end_at, meeting_title/,
  'end of a calendar operation': /^update calendar_orders\s+set leased_until = null, event_url/,
  'commit of a calendar operation': /^select case when set_config\('app\.deadline'/,
} as const;

/** Statements that take and finish a workforce step. Its call is a write like any other. */
const workforceSteps = {
  'claim of a run': /^update workforce_runs set attempts/,
  'storage of the call': /^update workforce_runs set "call"/,
  'status of the run': /^update workforce_runs set "status"/,
  'outcome of a step': /^insert into workforce_run_steps/,
  'commit of a step': /^select case when set_config\('app\.deadline'/,
} as const;

/** Statements that take and finish a message, on their own connections. */
const messageSendings = {
  'claim of a draft': /^with next as materialized .* update message_drafts d\s+set attempts/s,
  'query of the company': /^select c\.name, c\.disabled_modules/,
  'end of a draft': /^update message_drafts set "?status/,
  'row of the timeline': /^insert into messages/,
  'audit row': statements['audit row'],
  event: statements.event,
  'commit of a message': /^select case when set_config\('app\.deadline'/,
} as const;

/** Statements of a merge and of its undo. Their audit rows and events are those of any write. */
export const merges = {
  'begin and locks of the key': statements['begin and locks of the key'],
  'lock of the records': /^select .* from "leads" r\s.* for update$/s,
  'move of references': /^with referring as materialized .* update "deals"/s,
  'move of notes': /^update "notes" set record_id/,
  'move of links': /^update links l set to_id/,
  'source to the trash': /^with gone as .* delete from "leads" r/s,
  'source from the trash': /^insert into "leads"/,
  'clean-up of the trash': /^delete from deleted_records/,
  'storage of the merge': /^insert into merges/,
  'end of the merge': /^update merges set "undone_at"/,
  'audit row': statements['audit row'],
  'stored response': statements['stored response'],
  commit: statements.commit,
} as const;

const commitOfJob = /^select case when set_config\('app\.deadline'/;

/** Statements that write a chunk of an import and end it, on their own connections. */
const importChunks = {
  'lock of an import': /^select .*\sfrom imports\s.*for no key update/s,
  'claim of an import': /^update imports set "?status"?\s*=\s*\$\d+,\s*"?started_at/,
  'records of a chunk': /^(with .*)?insert into "?accounts/s,
  'failed rows': /^insert into import_errors/,
  'position of an import': /^update imports set "?created/,
  'end of an import': /^update imports set "?status"?\s*=\s*\$\d+,\s*"?completed_at/,
  'audit row': statements['audit row'],
  event: statements.event,
  'commit of an import': commitOfJob,
} as const;

/** Statements that apply a chunk of a revert and end it, on their own connections. */
const revertChunks = {
  'lock of a revert': /^select .*\sfrom reverts\s.*for no key update/s,
  'items of a chunk': /^select .* from revert_items/s,
  'position of a revert': /^update reverts set/,
  'end of an undo': /^update imports set/,
  'audit row': statements['audit row'],
  event: statements.event,
  'commit of a revert': commitOfJob,
} as const;

/** Statements that claim, keep and end an export, on their own connections. */
const exportSteps = {
  'claim of an export': /^update exports\s+set status = 'running'/,
  'progress of an export': /^update exports\s+set claimed_until/,
  'announcement of a file': /^insert into stored_files/,
  'end of an export': /^update exports\s+set status = 'completed'/,
  'audit row': statements['audit row'],
  'commit of an export': commitOfJob,
} as const;

/** Statements that read an export, on the connections of snapshots. */
const snapshotReads = { 'reading of a page': /^select .* from "?accounts/s } as const;

export type Statement =
  | keyof typeof merges
  | keyof typeof importChunks
  | keyof typeof revertChunks
  | keyof typeof exportSteps
  | keyof typeof snapshotReads
  | keyof typeof messageSendings
  | keyof typeof workforceSteps
  | keyof typeof calendarOrders
  | keyof typeof stripePayments
  | keyof typeof statements
  | keyof typeof dispatches
  | keyof typeof sendings
  | keyof typeof matchings
  | keyof typeof payments;

/**
 * before: PostgreSQL does not receive it. sent: PostgreSQL receives it. answered: PostgreSQL has
 * executed it, and the server does not get the response.
 */
export type Moment = 'before' | 'sent' | 'answered';

export interface Point {
  statement: Statement;
  moment: Moment;
  /** True if the transaction commits despite the cut. */
  applied: boolean;
}

/**
 * These are sent together with the commit: once they are answered, the transaction is committed.
 */
const withCommit: readonly Statement[] = ['audit row', 'event', 'stored response'];

/** All points of a write. */
export const points: readonly Point[] = listPoints(Object.keys(statements) as Statement[]);

/** All points of the dispatcher. */
export const dispatcherPoints: readonly Point[] = listPoints(Object.keys(dispatches) as Statement[]);

const onlyInMerge: readonly Statement[] = ['lock of the records', 'source to the trash', 'storage of the merge'];
const onlyInUndo: readonly Statement[] = ['source from the trash', 'clean-up of the trash', 'end of the merge'];

/** All points of a merge. */
export const mergePoints: readonly Point[] = listPoints(
  (Object.keys(merges) as Statement[]).filter((name) => !onlyInUndo.includes(name)),
);

/** All points of the undo of a merge. */
export const unmergePoints: readonly Point[] = listPoints(
  (Object.keys(merges) as Statement[]).filter((name) => !onlyInMerge.includes(name)),
);

/** All points of a webhook sender. */
export const senderPoints: readonly Point[] = listPoints(Object.keys(sendings) as Statement[]);

/** All points of the webhook matcher. */
export const matcherPoints: readonly Point[] = listPoints(Object.keys(matchings) as Statement[]);

function listPoints(names: readonly Statement[]): Point[] {
  return names.flatMap((statement) =>
    (['before', 'sent', 'answered'] as const)
      .filter((moment) => moment !== 'answered' || !withCommit.includes(statement))
      .map((moment) => ({ statement, moment, applied: statement.startsWith('commit') && moment !== 'before' })),
  );
}

export interface Trap {
  statement: Statement;
  moment: Moment;
  /** Restricts the trap to calls whose method and path contain it. Known from the preamble on. */
  endpoint?: string;
  /** Runs when the trap springs. */
  act: (link: Link) => void;
  /**
   * With the moment "before": passes the current bytes on. Otherwise the connection loses
   * everything from here on.
   */
  handOn?: boolean;
}

/**
 * Returns the points at which a kill has another outcome than at the point before. A statement that
 * is not sent with its commit is rolled back, whether PostgreSQL received it or not.
 */
export const fatal = (all: readonly Point[]): Point[] =>
  drawn(
    all.filter(
      ({ statement, moment }) =>
        moment === 'before' ||
        (moment === 'sent' && (withCommit.includes(statement) || statement.startsWith('commit'))),
    ),
  );

/** Selects every fourth point. Another SEED selects others, and POINTS=all selects all. */
function drawn(all: readonly Point[]): Point[] {
  if (process.env.POINTS === 'all') return [...all];
  const first = readSeed('SEED') % 4;
  return all.filter((_, index) => index % 4 === first);
}

/** All points of a calendar operation that the database sees. */
export const calendarPoints: readonly Point[] = listPoints(Object.keys(calendarOrders) as Statement[]);

/** All points of a workforce step, without its call. */
export const workforcePoints: readonly Point[] = listPoints(Object.keys(workforceSteps) as Statement[]);

/** All points of an import. */
export const importPoints: readonly Point[] = listPoints(Object.keys(importChunks) as Statement[]);

/** All points of an undo of an import. */
export const undoPoints: readonly Point[] = listPoints(Object.keys(revertChunks) as Statement[]);

/** All points of an export. */
export const exportPoints: readonly Point[] = listPoints([
  ...(Object.keys(exportSteps) as Statement[]),
  ...(Object.keys(snapshotReads) as Statement[]),
]);

/** All points of sending a message that the database sees. */
export const messagePoints: readonly Point[] = listPoints(Object.keys(messageSendings) as Statement[]);

/** All points of a payment. */
export const paymentPoints: readonly Point[] = listPoints(Object.keys(payments) as Statement[]);

/** All points of a payment with Stripe. */
export const stripePoints: readonly Point[] = listPoints(Object.keys(stripePayments) as Statement[]);

/** Waits for a statement at one point at a time. */
export class Traps {
  readonly #kindsOfCalls: Readonly<Record<string, RegExp>>;
  #trap: Trap | undefined;
  #sprung: () => void = () => undefined;

  /** @param kindsOfCalls statements of requests to recognize, besides those of jobs */
  constructor(kindsOfCalls: Readonly<Record<string, RegExp>> = statements) {
    this.#kindsOfCalls = kindsOfCalls;
  }

  /**
   * Arms the trap.
   * @returns a promise that resolves when it springs
   */
  set(trap: Trap): Promise<void> {
    this.#trap = trap;
    return new Promise((resolve) => {
      this.#sprung = resolve;
    });
  }

  clear(): void {
    this.#trap = undefined;
  }

  /** Returns true if the trap waits at this point. */
  waitsAt(statement: Statement | undefined, moment: Moment, endpoint: string | undefined): boolean {
    const trap = this.#trap;
    if (!trap || trap.statement !== statement || trap.moment !== moment) return false;
    return trap.endpoint === undefined || (endpoint?.includes(trap.endpoint) ?? false);
  }

  /**
   * Springs the trap.
   * @returns an action for after the previous bytes are passed on, or undefined to pass the current
   * bytes on too
   */
  spring(link: Link): (() => void) | undefined {
    const trap = this.#trap;
    if (!trap) return undefined;
    this.#trap = undefined;
    const act = (): void => {
      trap.act(link);
      this.#sprung();
    };
    if (trap.handOn) {
      act();
      return undefined;
    }
    link.lose();
    return act;
  }

  /** Watcher for the proxy in front of PostgreSQL. */
  readonly watch = (link: Link): Watcher => new StatementWatcher(link, this, this.#kindsOfCalls);
}

/** Parses PostgreSQL's protocol version 3 on one connection. */
class StatementWatcher implements Watcher {
  readonly #link: Link;
  readonly #traps: Traps;
  readonly #fromClient = new Messages(false);
  readonly #fromServer = new Messages(true);
  readonly #prepared = new Map<string, Statement | 'the commit itself' | undefined>();
  /**
   * Statements without a response yet, in order. The first entry is the start of the connection.
   */
  readonly #running: Running[] = [{ statement: undefined, synced: true }];
  #current: Statement | undefined;
  #executed = false;
  /** Method and path of the call whose transaction claimed a key. */
  #endpoint: string | undefined;
  readonly #kindsOfCalls: Readonly<Record<string, RegExp>>;
  #kinds: Readonly<Record<string, RegExp>> = {};

  constructor(link: Link, traps: Traps, kindsOfCalls: Readonly<Record<string, RegExp>>) {
    this.#kindsOfCalls = kindsOfCalls;
    this.#link = link;
    this.#traps = traps;
  }

  toServer(chunk: Buffer): Passed {
    const passed: Buffer[] = [];
    for (const { type, body, bytes } of this.#fromClient.read(chunk)) {
      if (type === '') this.#kinds = selectKinds(body, this.#kindsOfCalls);
      if (type === 'Q' || type === 'P' || type === 'B') {
        const afterwards = this.#begin(type, body);
        if (afterwards) return { bytes: Buffer.concat(passed), afterwards };
      }
      passed.push(bytes);
      if (type === 'E') this.#executed = true;
      if (type !== 'Q' && type !== 'S') continue;
      const afterwards = this.#end(type === 'Q' || this.#executed ? this.#current : undefined, true);
      if (afterwards) return { bytes: Buffer.concat(passed), afterwards };
    }
    return { bytes: Buffer.concat(passed) };
  }

  toClient(chunk: Buffer): Passed {
    const passed: Buffer[] = [];
    for (const { type, bytes } of this.#fromServer.read(chunk)) {
      // After a failed statement, PostgreSQL skips the rest of the same message.
      while (type === 'E' && this.#running[0]?.synced === false) this.#running.shift();
      const running = this.#running[0];
      const waits = this.#traps.waitsAt(running?.statement, 'answered', this.#endpoint);
      if (type === 'Z' || (type === 'C' && running?.synced === false)) {
        this.#running.shift();
        const afterwards = waits ? this.#traps.spring(this.#link) : undefined;
        if (afterwards) return { bytes: Buffer.concat(passed), afterwards };
      }
      // A response that must not arrive is held back from its first part.
      if (!waits) passed.push(bytes);
    }
    return { bytes: Buffer.concat(passed) };
  }

  /**
   * Handles the first message of a statement, which identifies it. If it shares a packet with the
   * previous statement, that one is now sent.
   */
  #begin(type: 'Q' | 'P' | 'B', body: Buffer): (() => void) | undefined {
    const [first = '', second = ''] = body.toString('latin1').split('\0', 2);
    const text = type === 'P' ? second : first;
    if (type !== 'B') this.#prepared.set(type === 'P' ? first : '', findStatement(text, this.#kinds));
    const named = this.#prepared.get(type === 'B' ? second : type === 'P' ? first : '');
    const goesOn = named === 'the commit itself' && this.#current?.startsWith('commit');
    if (this.#executed) {
      // The deadline check belongs to the commit after it.
      const afterwards = this.#end(goesOn ? undefined : this.#current, false);
      if (afterwards) return afterwards;
    }
    if (goesOn) return undefined;
    this.#current = named === 'the commit itself' ? undefined : named;
    if (this.#current === 'begin and locks of the key') this.#endpoint = undefined;
    if (type === 'B' && this.#current === preamble)
      this.#endpoint = /(?:POST|PUT|PATCH|DELETE) \/[\x21-\x7e]+/.exec(body.toString('latin1'))?.[0];
    if (!this.#traps.waitsAt(this.#current, 'before', this.#endpoint)) return undefined;
    return this.#traps.spring(this.#link);
  }

  /** Handles a statement that was passed on completely. */
  #end(statement: Statement | undefined, synced: boolean): (() => void) | undefined {
    this.#executed = false;
    this.#running.push({ statement, synced });
    return this.#traps.waitsAt(statement, 'sent', this.#endpoint) ? this.#traps.spring(this.#link) : undefined;
  }
}

interface Running {
  statement: Statement | undefined;
  /** False if more statements follow in the same packet and the responses arrive together. */
  synced: boolean;
}

/**
 * Returns the patterns for a connection by its application name. Other connections have none,
 * because they commit as well.
 */
function selectKinds(start: Buffer, kindsOfCalls: Readonly<Record<string, RegExp>>): Readonly<Record<string, RegExp>> {
  const name = /application_name\0([^\0]*)/.exec(start.toString('latin1'))?.[1] ?? '';
  const kinds: Readonly<Record<string, Readonly<Record<string, RegExp>>>> = {
    'crm crm_app': kindsOfCalls,
    'crm payments': kindsOfCalls,
    'crm dispatcher': dispatches,
    'crm webhooks': { ...sendings, ...matchings },
    'crm calendars': calendarOrders,
    'crm workforces': workforceSteps,
    'crm messages': messageSendings,
    'crm imports': importChunks,
    'crm reverts': revertChunks,
    'crm exports': exportSteps,
    'crm snapshots': snapshotReads,
  };
  return kinds[name] ?? {};
}

function findStatement(
  text: string,
  kinds: Readonly<Record<string, RegExp>>,
): Statement | 'the commit itself' | undefined {
  const trimmed = text.trim();
  if (trimmed === 'commit') return 'the commit itself';
  return (Object.keys(kinds) as Statement[]).find((name) => kinds[name]?.test(trimmed));
}

interface Message {
  type: string;
  body: Buffer;
  bytes: Buffer;
}

/** Splits a stream into protocol messages. */
class Messages {
  /** False before the first message of a client, which has no type byte. */
  #typed: boolean;
  #rest: Buffer = Buffer.alloc(0);

  constructor(typed: boolean) {
    this.#typed = typed;
  }

  read(chunk: Buffer): Message[] {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const found: Message[] = [];
    for (;;) {
      const head = this.#typed ? 1 : 0;
      if (rest.length < head + 4) break;
      const size = head + rest.readInt32BE(head);
      if (rest.length < size) break;
      const type = this.#typed ? String.fromCharCode(rest[0] as number) : '';
      found.push({ type, body: rest.subarray(head + 4, size), bytes: rest.subarray(0, size) });
      rest = rest.subarray(size);
      this.#typed = true;
    }
    this.#rest = rest;
    return found;
  }
}
