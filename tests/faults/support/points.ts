// The named points of writes, dispatcher and webhook senders, seen from statements as they pass.
import { readSeed } from '../../support/seed.ts';
import type { Link, Passed, Watcher } from './proxy.ts';

/** Tells the tenant, and, where the call claims a key, what the call is. */
export const entrance = 'settings, version of the API key and what is kept';

/** Every statement of a write with an Idempotency-Key, in their order, and how each is recognised. */
export const statements = {
  'begin and locks of the key': /^select case when .* pg_try_advisory_xact_lock\(/s,
  [entrance]: /^select (case\s+when )?set_config\('app\.company_id'/,
  change: /\b(insert into|update|delete from) "?(accounts|leads)\b/,
  'audit row': /^insert into audit_logs/,
  event: /^insert into outbox_events/,
  'kept answer': /^insert into idempotency_records/,
  commit: /^select case when set_config\('app\.deadline'/,
} as const;

/** Every statement with which the dispatcher moves a feed; on connections of its own. */
const dispatches = {
  'look for what waits': /^select company_id, .* from "outbox_events"/s,
  'begin of a dispatch': /^select (case\s+when )?set_config\('app\.company_id'/,
  'lock of the feed': /^select last_position as last from feeds/,
  'taking of events': /^with taken as/,
  'move of the feed': /^update feeds set last_position/,
  'note of a stretch': /^insert into webhook_backlog/,
  'commit of a dispatch': /^select case when set_config\('app\.deadline'/,
} as const;

/** Every statement with which deliveries are taken and the outcome of their attempts is noted; on connections of the senders. */
const sendings = {
  'look for due webhooks': /^select company_id, .* from webhook_subscriptions\s+where due_at/s,
  'begin of a sender': /^select (case\s+when )?set_config\('app\.company_id'/,
  'lock of a webhook': /^select url, sealed_secret/,
  'count of what is on its way': /^select count\(\*\)::int as in_flight/,
  'taking of deliveries': /^with due as materialized/,
  'end of a look': /^update webhook_subscriptions\s+set recent_attempts/,
  'lock of the health': /^select failing_since/,
  'outcome of an attempt': /^update webhook_deliveries d\s+set status = /,
  'trace of an attempt': /^update webhook_subscriptions\s+set last_delivery_at/,
  'commit of a sender': /^select case when set_config\('app\.deadline'/,
} as const;

/** Every statement with which deliveries are made, but its begin and commit, which are those of a sender; on the same connections. */
const matchings = {
  'look for stretches': /^select company_id, .* from "webhook_backlog"/s,
  'lock of a stretch': /^select first_position as first.*for update/s,
  'reading of events': /^select position, id, event/,
  'making of deliveries': /^insert into webhook_deliveries/,
  'waking of webhooks': /^update webhook_subscriptions\s+set due_at = case/,
  'removal of a stretch': /^delete from webhook_backlog/,
} as const;

/** Every statement with which a call has a payment provider asked, the books of the test provider included. */
export const payments = {
  'lock of the subscription': /^select .* from "subscriptions" .* for no key update/s,
  operation: /^insert into billing_operations/,
  'hold of the key': /^insert into idempotency_records .*leased_until\)/s,
  charge: /^insert into test_charges/,
  'look at the charge': /^select .* from test_charges/s,
  outcome: /^update billing_operations set status/,
  'new subscription': /^update "subscriptions" set/,
  invoice: /^insert into "?invoices/,
  'audit row': /^insert into audit_logs/,
  'kept answer': /^insert into idempotency_records .*created_at\)/s,
} as const;

/** Every statement with which a call has Stripe asked, and writes what Stripe has then. */
export const stripePayments = {
  operation: payments.operation,
  'hold of the key': payments['hold of the key'],
  'customer at Stripe': /^select customer_id/,
  'begin of the look': /^update provider_customers set asked/,
  'end of the look': /^update provider_customers\s+set written/,
  'new subscription': payments['new subscription'],
  'mirrored invoice': /^insert into invoices .*on conflict/s,
  outcome: payments.outcome,
  'audit row': payments['audit row'],
  'kept answer': payments['kept answer'],
} as const;

/** Every statement with which an order to a calendar is taken up and ended; on connections of their own. */
const calendarOrders = {
  'taking of an order': /^update calendar_orders set attempts/,
  'look at the booking': /^select start_at, end_at, meeting_title/,
  'end of an order': /^update calendar_orders\s+set leased_until = null, event_url/,
  'commit of an order': /^select case when set_config\('app\.deadline'/,
} as const;

/** Every statement with which a step of a workforce is taken up and ended; the call that does it is a write as any other. */
const workforceSteps = {
  'taking of a run': /^update workforce_runs set attempts/,
  'keeping of the call': /^update workforce_runs set "call"/,
  'move of the run': /^update workforce_runs set "status"/,
  'outcome of a step': /^insert into workforce_run_steps/,
  'commit of a step': /^select case when set_config\('app\.deadline'/,
} as const;

/** Every statement with which a message is taken up, and its end noted; on connections of their own. */
const messageSendings = {
  'taking of a draft': /^with next as materialized .* update message_drafts d\s+set attempts/s,
  'look at the company': /^select c\.name, c\.disabled_modules/,
  'end of a draft': /^update message_drafts set "?status/,
  'row of the timeline': /^insert into messages/,
  'audit row': statements['audit row'],
  event: statements.event,
  'commit of a message': /^select case when set_config\('app\.deadline'/,
} as const;

export type Statement =
  | keyof typeof messageSendings
  | keyof typeof workforceSteps
  | keyof typeof calendarOrders
  | keyof typeof stripePayments
  | keyof typeof statements
  | keyof typeof dispatches
  | keyof typeof sendings
  | keyof typeof matchings
  | keyof typeof payments;

/** before: it never reaches PostgreSQL. sent: PostgreSQL has it. answered: PostgreSQL has done it, and the server does not learn. */
export type Moment = 'before' | 'sent' | 'answered';

export interface Point {
  statement: Statement;
  moment: Moment;
  /** True when what is cut here is nevertheless done. */
  applied: boolean;
}

/** Always sent together with the commit behind them: once they are answered, PostgreSQL has it. */
const withCommit: readonly Statement[] = ['audit row', 'event', 'kept answer'];

/** Everywhere that a write can be cut. */
export const points: readonly Point[] = pointsOf(Object.keys(statements) as Statement[]);

/** Everywhere that the dispatcher can be cut. */
export const dispatcherPoints: readonly Point[] = pointsOf(Object.keys(dispatches) as Statement[]);

/** Everywhere that a sender of webhooks can be cut. */
export const senderPoints: readonly Point[] = pointsOf(Object.keys(sendings) as Statement[]);

/** Everywhere that the matcher of webhooks can be cut. */
export const matcherPoints: readonly Point[] = pointsOf(Object.keys(matchings) as Statement[]);

function pointsOf(names: readonly Statement[]): Point[] {
  return names.flatMap((statement) =>
    (['before', 'sent', 'answered'] as const)
      .filter((moment) => moment !== 'answered' || !withCommit.includes(statement))
      .map((moment) => ({ statement, moment, applied: statement.startsWith('commit') && moment !== 'before' })),
  );
}

export interface Trap {
  statement: Statement;
  moment: Moment;
  /** Only for calls whose method and path contain it: known from the entrance on. */
  endpoint?: string;
  /** What happens there. */
  act: (link: Link) => void;
  /** With the moment before: what is at hand is handed on after all. Otherwise the connection loses everything from here on. */
  handOn?: boolean;
}

/**
 * Where the death of a server leaves something else behind than at the point before: what is not sent with its commit is undone, whether
 * PostgreSQL had it or not.
 */
export const fatal = (all: readonly Point[]): Point[] =>
  drawn(
    all.filter(
      ({ statement, moment }) =>
        moment === 'before' ||
        (moment === 'sent' && (withCommit.includes(statement) || statement.startsWith('commit'))),
    ),
  );

/** Of points where something is killed, each fourth one. Another SEED takes others; POINTS=all takes all of them. */
function drawn(all: readonly Point[]): Point[] {
  if (process.env.POINTS === 'all') return [...all];
  const first = readSeed('SEED') % 4;
  return all.filter((_, index) => index % 4 === first);
}

/** Everywhere that an order to a calendar can be cut, as far as the database sees it. */
export const calendarPoints: readonly Point[] = pointsOf(Object.keys(calendarOrders) as Statement[]);

/** Everywhere that a step of a workforce can be cut, beside its call. */
export const workforcePoints: readonly Point[] = pointsOf(Object.keys(workforceSteps) as Statement[]);

/** Everywhere that the sending of a message can be cut, as far as the database sees it. */
export const messagePoints: readonly Point[] = pointsOf(Object.keys(messageSendings) as Statement[]);

/** Everywhere that a payment can be cut. */
export const paymentPoints: readonly Point[] = pointsOf(Object.keys(payments) as Statement[]);

/** The same where Stripe is asked. */
export const stripePoints: readonly Point[] = pointsOf(Object.keys(stripePayments) as Statement[]);

/** Waits at one point at a time for a write to come by. */
export class Traps {
  readonly #kindsOfCalls: Readonly<Record<string, RegExp>>;
  #trap: Trap | undefined;
  #sprung: () => void = () => undefined;

  /** @param kindsOfCalls statements of requests that are looked for, beside those of the dispatcher and of webhook senders */
  constructor(kindsOfCalls: Readonly<Record<string, RegExp>> = statements) {
    this.#kindsOfCalls = kindsOfCalls;
  }

  /** Resolves when it has sprung. */
  set(trap: Trap): Promise<void> {
    this.#trap = trap;
    return new Promise((resolve) => {
      this.#sprung = resolve;
    });
  }

  clear(): void {
    this.#trap = undefined;
  }

  /** True when the trap waits just there. */
  waitsAt(statement: Statement | undefined, moment: Moment, endpoint: string | undefined): boolean {
    const trap = this.#trap;
    if (!trap || trap.statement !== statement || trap.moment !== moment) return false;
    return trap.endpoint === undefined || (endpoint?.includes(trap.endpoint) ?? false);
  }

  /** @returns what else to do, after what came before has been handed on; undefined when what is at hand is handed on as well */
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

  /** For the proxy in front of PostgreSQL. */
  readonly watch = (link: Link): Watcher => new StatementWatcher(link, this, this.#kindsOfCalls);
}

/** Reads PostgreSQL's protocol, version 3, on one connection. */
class StatementWatcher implements Watcher {
  readonly #link: Link;
  readonly #traps: Traps;
  readonly #fromClient = new Messages(false);
  readonly #fromServer = new Messages(true);
  readonly #prepared = new Map<string, Statement | 'the commit itself' | undefined>();
  /** What PostgreSQL has not answered yet, in order; the first answer is that of the connection's start. */
  readonly #running: Running[] = [{ statement: undefined, synced: true }];
  #current: Statement | undefined;
  #executed = false;
  /** Method and path of the call that claimed its key in the transaction at hand. */
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
      if (type === '') this.#kinds = kindsOf(body, this.#kindsOfCalls);
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
      // Behind one that failed, PostgreSQL passes over all that came in the same message.
      while (type === 'E' && this.#running[0]?.synced === false) this.#running.shift();
      const running = this.#running[0];
      const waits = this.#traps.waitsAt(running?.statement, 'answered', this.#endpoint);
      if (type === 'Z' || (type === 'C' && running?.synced === false)) {
        this.#running.shift();
        const afterwards = waits ? this.#traps.spring(this.#link) : undefined;
        if (afterwards) return { bytes: Buffer.concat(passed), afterwards };
      }
      // An answer that must not arrive is kept back from its first part on.
      if (!waits) passed.push(bytes);
    }
    return { bytes: Buffer.concat(passed) };
  }

  /** A statement's first message: from it on, the statement is known, and the one before it, where that is in the same message, was sent. */
  #begin(type: 'Q' | 'P' | 'B', body: Buffer): (() => void) | undefined {
    const [first = '', second = ''] = body.toString('latin1').split('\0', 2);
    const text = type === 'P' ? second : first;
    if (type !== 'B') this.#prepared.set(type === 'P' ? first : '', nameOf(text, this.#kinds));
    const named = this.#prepared.get(type === 'B' ? second : type === 'P' ? first : '');
    const goesOn = named === 'the commit itself' && this.#current?.startsWith('commit');
    if (this.#executed) {
      // What asks for the time that is left is a part of the commit behind it.
      const afterwards = this.#end(goesOn ? undefined : this.#current, false);
      if (afterwards) return afterwards;
    }
    if (goesOn) return undefined;
    this.#current = named === 'the commit itself' ? undefined : named;
    if (this.#current === 'begin and locks of the key') this.#endpoint = undefined;
    if (type === 'B' && this.#current === entrance)
      this.#endpoint = /(?:POST|PUT|PATCH|DELETE) \/[\x21-\x7e]+/.exec(body.toString('latin1'))?.[0];
    if (!this.#traps.waitsAt(this.#current, 'before', this.#endpoint)) return undefined;
    return this.#traps.spring(this.#link);
  }

  /** A statement was handed on whole. */
  #end(statement: Statement | undefined, synced: boolean): (() => void) | undefined {
    this.#executed = false;
    this.#running.push({ statement, synced });
    return this.#traps.waitsAt(statement, 'sent', this.#endpoint) ? this.#traps.spring(this.#link) : undefined;
  }
}

interface Running {
  statement: Statement | undefined;
  /** False: others are in the same message behind it, and the answers come together. */
  synced: boolean;
}

/** What is recognised on a connection, by its name; on others nothing, since what else the server does has commits as well. */
function kindsOf(start: Buffer, kindsOfCalls: Readonly<Record<string, RegExp>>): Readonly<Record<string, RegExp>> {
  const name = /application_name\0([^\0]*)/.exec(start.toString('latin1'))?.[1] ?? '';
  const kinds: Readonly<Record<string, Readonly<Record<string, RegExp>>>> = {
    'crm crm_app': kindsOfCalls,
    'crm payments': kindsOfCalls,
    'crm dispatcher': dispatches,
    'crm webhooks': { ...sendings, ...matchings },
    'crm calendars': calendarOrders,
    'crm workforces': workforceSteps,
    'crm messages': messageSendings,
  };
  return kinds[name] ?? {};
}

function nameOf(text: string, kinds: Readonly<Record<string, RegExp>>): Statement | 'the commit itself' | undefined {
  const trimmed = text.trim();
  if (trimmed === 'commit') return 'the commit itself';
  return (Object.keys(kinds) as Statement[]).find((name) => kinds[name]?.test(trimmed));
}

interface Message {
  type: string;
  body: Buffer;
  bytes: Buffer;
}

/** Cuts a stream into the protocol's messages. */
class Messages {
  /** False before the first message of a client, which has no type. */
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
