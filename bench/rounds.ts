// Sides measured in turn, in alternating order, so that a busy machine is unfair to none of them.
import { load } from './load.ts';
import { databaseMilliseconds, type Side, usageOf } from './sides.ts';

export interface Settings {
  rounds: number;
  seconds: number;
  connections: number;
}

export interface Measured {
  name: string;
  /** One per round. */
  perSecond: number[];
  p50: number[];
  p99: number[];
  /** Microseconds of the server's own processor time per request. */
  cpuMicroseconds: number[];
  /** The same of the database, with what it does in the background meanwhile. */
  databaseMicroseconds: number[];
}

/** The compiler is at work for seconds, longer in a large program than in a small one; what runs for months is compiled. */
const warmUpSeconds = 6;

/**
 * @param next makes the bytes of the next request to a side
 * @param settle runs after each round, so that what one side left behind does not burden the next
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

/** Begins to watch the processor time of a server and of the database. @returns what notes the part of each of so many requests */
export function startUsage(pid: number): (requests: number, into: Measured) => void {
  const now = (): [number, number] => [usageOf(pid)?.cpuMilliseconds ?? Number.NaN, databaseMilliseconds()];
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
  /** Of the rounds' ratios. */
  median: number;
  least: number;
  most: number;
  target: number;
}

/** How a side's requests per second compare with another's, round by round. */
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

/** The value that this share of all does not exceed, from 0 to 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
