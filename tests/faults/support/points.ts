// The named points of a write: where it can be cut, seen from the statements as they pass, so that the server knows nothing of it.
import type { Link, Passed, Watcher } from './proxy.ts';

/** Every statement of a write with an Idempotency-Key, in their order, and how each is recognised. */
export const statements = {
  begin: /^begin; set local/,
  'lock of the key': /pg_try_advisory_xact_lock/,
  'look for a kept answer': /^select request_hash, status, body\s+from idempotency_records/,
  savepoint: /^savepoint/,
  change: /\b(insert into|update|delete from) "?(accounts|leads)\b/,
  'audit row': /^insert into audit_logs/,
  event: /^insert into outbox_events/,
  'kept answer': /^insert into idempotency_records/,
  commit: /^call require_time_left.*; commit$/,
} as const;

export type Statement = keyof typeof statements;

/** before: it never reaches PostgreSQL. sent: PostgreSQL has it. answered: PostgreSQL has done it, and the server does not learn. */
export type Moment = 'before' | 'sent' | 'answered';

export interface Point {
  statement: Statement;
  moment: Moment;
  /** True when what is cut here is nevertheless done. */
  applied: boolean;
}

/** Sent together with the commit behind them: once they are answered, PostgreSQL has it. */
const withCommit: readonly Statement[] = ['audit row', 'event', 'kept answer'];

/** Everywhere that a write can be cut. */
export const points: readonly Point[] = (Object.keys(statements) as Statement[]).flatMap((statement) =>
  (['before', 'sent', 'answered'] as const)
    .filter((moment) => moment !== 'answered' || !withCommit.includes(statement))
    .map((moment) => ({ statement, moment, applied: statement === 'commit' && moment !== 'before' })),
);

export interface Trap {
  statement: Statement;
  moment: Moment;
  /** Only for calls whose method and path contain it: known from the claim of the key on. */
  endpoint?: string;
  /** What happens there. */
  act: (link: Link) => void;
  /** With the moment before: what is at hand is handed on after all. Otherwise the connection loses everything from here on. */
  handOn?: boolean;
}

/** Waits at one point at a time for a write to come by. */
export class Traps {
  #trap: Trap | undefined;
  #sprung: () => void = () => undefined;

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
  readonly watch = (link: Link): Watcher => new StatementWatcher(link, this);
}

/** Reads PostgreSQL's protocol, version 3, on one connection. */
class StatementWatcher implements Watcher {
  readonly #link: Link;
  readonly #traps: Traps;
  readonly #fromClient = new Messages(false);
  readonly #fromServer = new Messages(true);
  readonly #prepared = new Map<string, Statement | undefined>();
  /** What PostgreSQL has not answered yet, in order; the first answer is that of the connection's start. */
  readonly #running: (Statement | undefined)[] = [undefined];
  #current: Statement | undefined;
  #executed = false;
  /** Method and path of the call that claimed its key in the transaction at hand. */
  #endpoint: string | undefined;

  constructor(link: Link, traps: Traps) {
    this.#link = link;
    this.#traps = traps;
  }

  toServer(chunk: Buffer): Passed {
    const passed: Buffer[] = [];
    for (const { type, body, bytes } of this.#fromClient.read(chunk)) {
      if (type === 'Q' || type === 'P' || type === 'B') {
        this.#begin(type, body);
        if (this.#traps.waitsAt(this.#current, 'before', this.#endpoint)) {
          const then = this.#traps.spring(this.#link);
          if (then) return { bytes: Buffer.concat(passed), then };
        }
      }
      passed.push(bytes);
      if (type === 'E') this.#executed = true;
      if (type !== 'Q' && type !== 'S') continue;
      const statement = type === 'Q' || this.#executed ? this.#current : undefined;
      this.#executed = false;
      this.#running.push(statement);
      if (this.#traps.waitsAt(statement, 'sent', this.#endpoint)) {
        const then = this.#traps.spring(this.#link);
        if (then) return { bytes: Buffer.concat(passed), then };
      }
    }
    return { bytes: Buffer.concat(passed) };
  }

  toClient(chunk: Buffer): Passed {
    const passed: Buffer[] = [];
    for (const { type, bytes } of this.#fromServer.read(chunk)) {
      const waits = this.#traps.waitsAt(this.#running[0], 'answered', this.#endpoint);
      if (type === 'Z') {
        this.#running.shift();
        const then = waits ? this.#traps.spring(this.#link) : undefined;
        if (then) return { bytes: Buffer.concat(passed), then };
      }
      // An answer that must not arrive is kept back from its first part on.
      if (!waits) passed.push(bytes);
    }
    return { bytes: Buffer.concat(passed) };
  }

  /** A statement's first message: from it on, the statement is known. */
  #begin(type: 'Q' | 'P' | 'B', body: Buffer): void {
    const texts = body.toString('latin1').split('\0', 2);
    const [first = '', second = ''] = texts;
    if (type === 'Q') this.#current = statementOf(first);
    if (type === 'P') {
      this.#current = statementOf(second);
      this.#prepared.set(first, this.#current);
    }
    if (type === 'B') this.#current = this.#prepared.get(second);
    if (this.#current === 'begin') this.#endpoint = undefined;
    if (type === 'B' && this.#current === 'look for a kept answer')
      this.#endpoint = /(?:POST|PUT|PATCH|DELETE) \/[\x21-\x7e]+/.exec(body.toString('latin1'))?.[0];
  }
}

function statementOf(text: string): Statement | undefined {
  const trimmed = text.trim();
  return (Object.keys(statements) as Statement[]).find((name) => statements[name].test(trimmed));
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
