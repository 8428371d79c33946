// The only file that uses the additions of the postgres.js patch; see patches/README.md.
import postgres from 'postgres';
import type { Planning, Preamble } from './preambles.ts';
import { rowNames } from './row-names.ts';

// biome-ignore lint/complexity/noBannedTypes: the driver's own default for its type parameter.
export type Sql = postgres.ISql<{}>;

/**
 * A patched statement. It is sent, and gets a promise, when it is awaited or `execute()` is called.
 * It can be awaited like a promise, but `instanceof Promise` is false.
 */
export interface Statement<Rows = unknown> extends PromiseLike<Rows> {
  /**
   * Sends the statement immediately. `await` alone sends it a microtask later, behind statements
   * that were executed meanwhile.
   */
  execute(): this;
  catch<Other>(onRejected: (error: unknown) => Other): Promise<Rows | Other>;
}

/** The options of a statement that the patched driver reads when it sends the statement. */
interface StatementOptions {
  /** Keeps the statement prepared on its connection. Only for texts that have few variants. */
  prepare?: boolean | undefined;
  /** Sends the text as a simple query, which takes neither parameters nor a preamble. */
  simple?: boolean;
  /** Sent in the same message, in front of the statement. */
  preamble?: Preamble;
  /**
   * Skips the round trip that asks for the types of parameters, unless there are lists or JSON
   * among them.
   */
  skipDescribe?: boolean;
}

/** The options of a client with one connection that the patched driver reads for each statement. */
interface ClientOptions {
  /** See `PooledConnection.isPipelined`. */
  pipelined?: boolean;
}

/** A client with one connection. */
export type Client = postgres.Sql;

/**
 * Array types by their element types, with PostgreSQL's fixed type ids. The unpatched driver asks
 * each new connection for all array types, which is a sixth of the cost of opening it.
 */
const arrayTypes: readonly (readonly [element: number, array: number])[] = Object.entries({
  16: 1000,
  17: 1001,
  20: 1016,
  21: 1005,
  23: 1007,
  25: 1009,
  1043: 1015,
  1082: 1182,
  1184: 1185,
  1700: 1231,
  2950: 2951,
  3802: 3807,
}).map(([element, array]) => [Number(element), array]);

/** Creates a client; it connects with its first statement. */
export function createClient(
  url: string,
  options: postgres.Options<Record<string, postgres.PostgresType>> & { socket?: unknown },
): Client {
  // The driver's types know neither `socket` nor a list of array types.
  return postgres(url, { ...options, transform: rowNames, fetch_types: arrayTypes as never }) as unknown as Client;
}

/**
 * Returns true if everything that a client sends in one turn of the event loop is one message with
 * one response.
 */
export function isPipelined(client: Client): boolean {
  return (client.options as ClientOptions).pipelined === true;
}

/** Starts or ends pipelining for the statements that follow. */
export function setPipelined(client: Client, value: boolean): void {
  (client.options as ClientOptions).pipelined = value;
}

/** Sends a statement behind a preamble. The statement stays prepared on its connection. */
export function sendBehind(
  sql: Sql,
  preamble: Preamble,
  text: string,
  parameters: readonly string[] = [],
): Statement<readonly object[]> {
  const options: StatementOptions = { prepare: true, simple: false, preamble };
  return sql.unsafe<object[]>(text, [...parameters], options).execute();
}

/** Sends a text of one or more statements without parameters as a simple query. */
export function sendSimple(sql: Sql, text: string): Statement<readonly object[]> {
  return sql.unsafe<object[]>(text).execute();
}

/**
 * Returns the driver's functions that create statements, with a function that runs before each.
 * @param enter throws if statements can no longer be created; returns the preamble of the
 * statement, if it has one
 */
export function guardStatements(sql: Sql, enter: () => Preamble | undefined): Sql {
  const send = (...parameters: Parameters<typeof sql>) => {
    const preamble = enter();
    return preamble ? withPreamble(sql(...parameters), preamble) : sql(...parameters);
  };
  const unsafe = (...[text, parameters, options]: Parameters<typeof sql.unsafe>) => {
    const preamble = enter();
    if (!preamble) return sql.unsafe(text, parameters, options);
    // A statement without parameters would be sent as a simple query.
    const behind: StatementOptions = { ...options, simple: false, preamble };
    return sql.unsafe(text, parameters, behind);
  };
  const { json, array, types, typed } = sql;
  return Object.assign(send, { unsafe, json, array, types, typed }) as unknown as Sql;
}

const getOptions = (statement: unknown): StatementOptions | undefined =>
  (statement as { options?: StatementOptions }).options;

function withPreamble<Part>(part: Part, preamble: Preamble): Part {
  const options = getOptions(part);
  // Helpers for names and values have no options.
  if (options) options.preamble = preamble;
  return part;
}

/**
 * Sets how a prepared statement that has not been sent is planned. `in order` is only for
 * statements that have their limit in their text and exactly one index with their order. A plan for
 * all values could otherwise sort the records of a small company, and then also those of a large
 * one.
 * @returns false if the statement is not part of a read session, which alone can set this
 */
export function setPlanning(statement: Statement, planning: Planning): boolean {
  const options = getOptions(statement);
  const preamble = options?.preamble?.withPlanning?.(planning);
  if (!options || !preamble) return false;
  options.preamble = preamble;
  return true;
}

/**
 * Plans a statement for each call instead of keeping it prepared: for statements whose text depends
 * on the request, which would pile up on the connection. PostgreSQL infers the types of its
 * parameters, unless there are lists or JSON among them.
 */
export function markUnprepared<Query extends Statement>(statement: Query): Query {
  Object.assign(getOptions(statement) as StatementOptions, { prepare: false, skipDescribe: true });
  return statement;
}
