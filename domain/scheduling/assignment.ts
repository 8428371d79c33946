// Who of a pool is next.

export type AssignmentStrategy = 'round_robin' | 'least_busy' | 'priority';

export interface Candidate {
  userId: string;
  /** A whole number above 0: shares are in proportion to it. */
  weight: number;
  /** How often the rotation has chosen them so far. */
  assigned: number;
  /** Bookings and holds to come. */
  load: number;
}

/**
 * The member who is next.
 * @param all in the order of the pool, those who cannot be chosen as well: shares are reckoned among all
 * @param eligible ids of those who can be chosen
 * @returns undefined where nobody can be chosen
 */
export function chooseMember(
  strategy: AssignmentStrategy,
  all: readonly Candidate[],
  eligible: ReadonlySet<string>,
): string | undefined {
  const open = all.filter(({ userId }) => eligible.has(userId));
  if (strategy === 'priority') return open[0]?.userId;
  if (strategy === 'least_busy') return first(open, (a, b) => a.load - b.load || byShare(a, b))?.userId;
  return nextInRotation(all, open)?.userId;
}

/** Fewest assignments for their weight. */
const byShare = (a: Candidate, b: Candidate): number => a.assigned * b.weight - b.assigned * a.weight;

/**
 * Tijdeman's rule for the chairman assignment problem, in whole numbers: of those whose share, with this assignment counted, is
 * far enough above what they had, the one whose next turn is due first. After every assignment nobody is more than
 * 1 - 1 / (2n - 2) away from their share, n being the number of members.
 */
function nextInRotation(all: readonly Candidate[], open: readonly Candidate[]): Candidate | undefined {
  const turn = sum(all, ({ assigned }) => assigned) + 1;
  const weights = sum(all, ({ weight }) => weight);
  const parts = 2 * all.length - 2;
  /** The share that they lack, in parts of all weights. */
  const lacking = ({ weight, assigned }: Candidate): number => parts * (weight * turn - weights * assigned);
  const untilDue = (candidate: Candidate): number => (parts - 1) * weights - lacking(candidate);
  const behind = open.filter((candidate) => lacking(candidate) >= weights);
  return first(behind.length > 0 ? behind : open, (a, b) => untilDue(a) * b.weight - untilDue(b) * a.weight);
}

const sum = (all: readonly Candidate[], of: (candidate: Candidate) => number): number =>
  all.reduce((total, candidate) => total + of(candidate), 0);

/** The least by an order; of equals the one that stands first. */
function first(list: readonly Candidate[], order: (a: Candidate, b: Candidate) => number): Candidate | undefined {
  return list.toSorted(order)[0];
}
