// Statements that our patch of the driver sends in front of another, as bytes of the protocol.

/** What the patch reads of the option `before` of a statement. */
export interface Beforehand {
  bytes: Buffer;
  /** How many statements they run. */
  count: number;
  /** The prepared statement that they run, and what prepares it: sent along until it was answered once on the connection. */
  name?: string;
  preparation?: Buffer;
  /** Gets each row that they answer with, as bytes. */
  told?(row: Buffer): void;
  /** The same for a statement that is planned otherwise. */
  planned?(how: Planning): Beforehand;
}

/**
 * How a statement that is kept prepared is planned: as PostgreSQL finds best; once for each connection, for whatever values; that, and without
 * sorting, where an index has its rows in order; or anew for the values of each call.
 */
export type Planning = 'auto' | 'once' | 'in order' | 'anew';

/**
 * Says how a statement is planned that is kept prepared, and not executed yet. In order: only with its limit in its text, and where one index alone has
 * its rows in that order. A plan for all values could otherwise sort the records of a small company, and so of a large one.
 * @returns false: it is not in a call that only reads, where nothing can be said about that
 */
export function planned(query: Promise<unknown>, how: Planning): boolean {
  const { options } = query as unknown as { options: { before?: Beforehand } };
  const before = options.before?.planned?.(how);
  if (before) options.before = before;
  return before !== undefined;
}

const int16 = (value: number): string => String.fromCharCode((value >> 8) & 255, value & 255);
const int32 = (value: number): string => int16(value >> 16) + int16(value);
const head = (kind: string, body: string): string => kind + int32(body.length + 4);
const message = (kind: string, body: string): Buffer => Buffer.from(head(kind, body) + body, 'latin1');
/** Runs what was bound last, for all rows. */
const execution = 'E\0\0\0\x09\0\0\0\0\0';

/** Begins a transaction. */
export const begin: Beforehand = { bytes: runOnce('begin'), count: 1 };

/** Begins a transaction with a statement. */
export function beginWith(statement: Beforehand): Beforehand {
  return { ...statement, bytes: Buffer.concat([begin.bytes, statement.bytes]), count: begin.count + statement.count };
}

/** A condition that is true, and sets a setting until the transaction ends. */
export const on = (name: string, value: string): string => `set_config('${name}', '${value}', true) = '${value}'`;

/** A statement that stays prepared and answers with one row, whose first value counts. Its parameters are texts of ASCII. */
export class Entrance {
  readonly #name: string;
  readonly #preparation: Buffer;

  /** @param name of the prepared statement, the same on all connections */
  constructor(name: string, text: string) {
    this.#name = name;
    // Closed first: it may have been prepared in a message whose answer was not read yet.
    this.#preparation = Buffer.concat([message('C', `S${name}\0`), message('P', `${name}\0${text}\0\0\0`)]);
  }

  /** @param told gets the first value of its row */
  with(parameters: readonly string[], told: (value: string | null) => void = ignore): Beforehand {
    const values = parameters.map((value) => int32(value.length) + value).join('');
    const bound = `\0${this.#name}\0\0\0${int16(parameters.length)}${values}\0\0`;
    return {
      bytes: Buffer.from(head('B', bound) + bound + execution, 'latin1'),
      count: 1,
      name: this.#name,
      preparation: this.#preparation,
      told: (row) => told(firstValue(row)),
    };
  }
}

const ignore = (): void => undefined;

function firstValue(row: Buffer): string | null {
  const length = row.readInt32BE(7);
  return length === -1 ? null : row.toString('utf8', 11, 11 + length);
}

function runOnce(text: string): Buffer {
  // The unnamed statement and portal, no parameters, no formats.
  return Buffer.concat([message('P', `\0${text}\0\0\0`), message('B', '\0\0\0\0\0\0\0\0'), Buffer.from(execution)]);
}
