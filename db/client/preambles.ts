// Preambles: statements that the patched driver sends in front of another, as protocol bytes.

/** The parts of a preamble that the patched driver reads. */
export interface Preamble {
  bytes: Buffer;
  /** How many statements the bytes run. */
  count: number;
  /**
   * The prepared statement that the bytes run, and the bytes that prepare it. These are sent until
   * the connection has responded to them once.
   */
  name?: string;
  preparation?: Buffer;
  /** Gets each row that the statements return, as bytes. */
  onRow?(row: Buffer): void;
  /** Returns a preamble that plans the statement behind it in another way. */
  withPlanning?(planning: Planning): Preamble;
}

/**
 * How a prepared statement is planned. `auto`: as PostgreSQL decides. `once`: once for each
 * connection, for any values. `in order`: once and without sorting, if an index has its rows in
 * order. `custom`: for the values of each call.
 */
export type Planning = 'auto' | 'once' | 'in order' | 'custom';

const int16 = (value: number): string => String.fromCharCode((value >> 8) & 255, value & 255);
const int32 = (value: number): string => int16(value >> 16) + int16(value);
const head = (kind: string, body: string): string => kind + int32(body.length + 4);
const message = (kind: string, body: string): Buffer => Buffer.from(head(kind, body) + body, 'latin1');
/** Runs the last bound statement, for all rows. */
const execution = 'E\0\0\0\x09\0\0\0\0\0';

/** Begins a transaction. */
export const begin: Preamble = { bytes: runOnce('begin'), count: 1 };

/** Begins a transaction with a statement. */
export function beginWith(statement: Preamble): Preamble {
  return { ...statement, bytes: Buffer.concat([begin.bytes, statement.bytes]), count: begin.count + statement.count };
}

/** Runs a statement without parameters or rows after a preamble. */
export function appendStatement(preamble: Preamble, text: string): Preamble {
  return { ...preamble, bytes: Buffer.concat([preamble.bytes, runOnce(text)]), count: preamble.count + 1 };
}

/** Returns a condition that is always true and changes a setting until the transaction ends. */
export const buildSettingCondition = (name: string, value: string): string =>
  `set_config('${name}', '${value}', true) = '${value}'`;

/**
 * A statement that stays prepared and returns one row, of which the first value counts. Its
 * parameters are ASCII texts.
 */
export class PreparedPreamble {
  readonly #name: string;
  readonly #preparation: Buffer;

  /** @param name the name of the prepared statement, the same on all connections */
  constructor(name: string, text: string) {
    this.#name = name;
    // Closes the statement first: an earlier message, whose response was not read yet, may have
    // prepared it.
    this.#preparation = Buffer.concat([message('C', `S${name}\0`), message('P', `${name}\0${text}\0\0\0`)]);
  }

  /** @param onValue gets the first value of the row */
  bind(parameters: readonly string[], onValue: (value: string | null) => void = ignore): Preamble {
    const values = parameters.map((value) => int32(value.length) + value).join('');
    const bound = `\0${this.#name}\0\0\0${int16(parameters.length)}${values}\0\0`;
    return {
      bytes: Buffer.from(head('B', bound) + bound + execution, 'latin1'),
      count: 1,
      name: this.#name,
      preparation: this.#preparation,
      onRow: (row) => onValue(readFirstValue(row)),
    };
  }
}

const ignore = (): void => undefined;

function readFirstValue(row: Buffer): string | null {
  const length = row.readInt32BE(7);
  return length === -1 ? null : row.toString('utf8', 11, 11 + length);
}

function runOnce(text: string): Buffer {
  // The unnamed statement and portal, no parameters, no formats.
  return Buffer.concat([message('P', `\0${text}\0\0\0`), message('B', '\0\0\0\0\0\0\0\0'), Buffer.from(execution)]);
}
