// Measures sides in turn and in alternating order, so that a busy machine affects all equally.
import { load } from './load.ts';
import { databaseMilliseconds, readUsage, type Side } from './sides.ts';

export interface Settings {
  rounds: number;
  seconds: number;
  connections: number;
}

export interface Measured {
  name: string;
  /** One value per round. */
  perSecond: number[];
  p50: number[];
  p99: number[];
  /** Microseconds of the server's processor time per request. */
  cpuMicroseconds: number[];
  /** Microseconds of the database's processor time per request, including its background work. */
  databaseMicroseconds: number[];
}

/**
 * JIT compilation takes seconds, longer in a large program. A server that runs for months is
 * compiled.
 */
const warmUpSeconds = 6;

/**
 * Measures all sides.
 * @param next returns a function that creates the next request for a side
 * @param settle runs after each round, so that leftover work of one side does not affect the next
 */
export async function measure(
  sides: readonly Side[],
  next: (side: Side) => () => Buffer,
  settings: Settings,
  settle: () => Promise<void> = async () => undefined,
): Promise<Measured[]> {
  const { rounds, seconds, connections } = settings;
  const measured = new Map<string, Measured>(sides.map(({ name }) => [name, nothingMeasured(name)]));
  for (const side of sides) {
    await load({ port: side.port, connections, milliseconds: warmUpSeconds * 1000, next: next(side) });
    await settle();
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const used = startUsage(side.pid);
      const result = await load({ port: side.port, connections, milliseconds: seconds * 1000, next: next(side) });
      const into = measured.get(side.name) as Measured;
      into.perSecond.push(result.perSecond);
      into.p50.push(result.p50);
      into.p99.push(result.p99);
      used(result.requests, into);
      await settle();
    }
  }
  return [...measured.values()];
}

export const nothingMeasured = (name: string): Measured => ({
  name,
  perSecond: [],
  p50: [],
  p99: [],
  cpuMicroseconds: [],
  databaseMicroseconds: [],
});

/**
 * Starts measuring the processor time of a server and of the database.
 * @returns a function that records the share of each of so many requests
 */
export function startUsage(pid: number): (requests: number, into: Measured) => void {
  const now = (): [number, number] => [readUsage(pid)?.cpuMilliseconds ?? Number.NaN, databaseMilliseconds()];
  const [server, database] = now();
  return (requests, into) => {
    const [serverThen, databaseThen] = now();
    into.cpuMicroseconds.push(((serverThen - server) * 1000) / requests);
    into.databaseMicroseconds.push(((databaseThen - database) * 1000) / requests);
  };
}

export interface Ratio {
  of: string;
  to: string;
  /** Median of the rounds' ratios. */
  median: number;
  least: number;
  most: number;
  target: number;
}

/** Compares the requests per second of two sides, round by round. */
export function ratio(of: Measured, to: Measured, target: number): Ratio {
  const ratios = of.perSecond.map((value, round) => value / (to.perSecond[round] ?? Number.NaN));
  return {
    of: of.name,
    to: to.name,
    median: median(ratios),
    least: Math.min(...ratios),
    most: Math.max(...ratios),
    target,
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

/** Returns the value that a share (0 to 1) of all values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
