// Chooses the next member of a pool.

export type AssignmentStrategy = 'round_robin' | 'least_busy' | 'priority';

export interface Candidate {
  userId: string;
  /** A positive integer. Shares are proportional to it. */
  weight: number;
  /** How often the rotation has chosen the member so far. */
  assigned: number;
  /** Future bookings and holds. */
  load: number;
}

/**
 * Chooses the next member.
 * @param all in the pool's order, including members who are not eligible, because shares are
 * computed among all
 * @param eligible ids of the members who can be chosen
 * @returns undefined if none is eligible
 */
export function chooseMember(
  strategy: AssignmentStrategy,
  all: readonly Candidate[],
  eligible: ReadonlySet<string>,
): string | undefined {
  const open = all.filter(({ userId }) => eligible.has(userId));
  if (strategy === 'priority') return open[0]?.userId;
  if (strategy === 'least_busy') return findLeast(open, (a, b) => a.load - b.load || compareShares(a, b))?.userId;
  return chooseNext(all, open)?.userId;
}

/** Orders candidates by their assignments relative to their weight, fewest first. */
const compareShares = (a: Candidate, b: Candidate): number => a.assigned * b.weight - b.assigned * a.weight;

/**
 * Applies Tijdeman's rule for the chairman assignment problem, in integers. Candidates are the members
 * whose share, including this assignment, is far enough above their count. Among them, the one
 * whose next turn is due first is chosen. After every assignment each member is within 1 - 1 / (2n
 * - 2) of their share, for n members.
 */
function chooseNext(all: readonly Candidate[], open: readonly Candidate[]): Candidate | undefined {
  const turn = sum(all, ({ assigned }) => assigned) + 1;
  const weights = sum(all, ({ weight }) => weight);
  const parts = 2 * all.length - 2;
  /** Returns the missing share, in units of the total weight. */
  const missingShare = ({ weight, assigned }: Candidate): number => parts * (weight * turn - weights * assigned);
  const untilDue = (candidate: Candidate): number => (parts - 1) * weights - missingShare(candidate);
  const behind = open.filter((candidate) => missingShare(candidate) >= weights);
  return findLeast(behind.length > 0 ? behind : open, (a, b) => untilDue(a) * b.weight - untilDue(b) * a.weight);
}

const sum = (all: readonly Candidate[], of: (candidate: Candidate) => number): number =>
  all.reduce((total, candidate) => total + of(candidate), 0);

/** Returns the minimum by an order. Of equal items, the first one. */
function findLeast(list: readonly Candidate[], order: (a: Candidate, b: Candidate) => number): Candidate | undefined {
  return list.toSorted(order)[0];
}
