// Suggestions: the one known name that is closest to an unknown one.

const longest = 60;

/**
 * Returns the closest of the names, or undefined if none is close. Case and punctuation do not
 * count.
 * @param names only those that the caller may see, because a suggestion reveals that they exist
 */
export function findClosest(given: string, names: Iterable<string>): string | undefined {
  const wanted = plain(given);
  if (given.length > longest || wanted === '') return undefined;
  let best: string | undefined;
  let least = wanted.length < 3 ? 0 : wanted.length < 6 ? 1 : 2;
  for (const name of names) {
    const known = plainName(name);
    const away = beginsWith(wanted, known) ? Math.min(1, least) : distance(wanted, known, least);
    if (away > least || (best !== undefined && away === least)) continue;
    best = name;
    least = away;
    if (least === 0) break;
  }
  return best;
}

const plain = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');

const plainNames = new Map<string, string>();

/**
 * Returns the plain form of a known name. Cached, because a body of many unknown names is compared
 * with the same ones.
 */
function plainName(name: string): string {
  const kept = plainNames.get(name);
  if (kept !== undefined) return kept;
  if (plainNames.size > 10_000) plainNames.clear();
  const made = plain(name.slice(0, longest));
  plainNames.set(name, made);
  return made;
}

/**
 * Returns true if one is the beginning of the other, as in phone and phone_number. Short beginnings
 * do not count.
 */
function beginsWith(a: string, b: string): boolean {
  return a !== b && Math.min(a.length, b.length) >= 4 && (a.startsWith(b) || b.startsWith(a));
}

/** Three rows of the table of distances, which are reused. */
let [before, row, next] = [new Uint8Array(longest * 2), new Uint8Array(longest * 2), new Uint8Array(longest * 2)];

/**
 * Counts letters that were added, left out, replaced or swapped with their neighbor.
 * @returns a number above the bound, without counting further, if there are more; so the work grows
 * with the length, not with its square
 */
function distance(a: string, b: string, bound: number): number {
  const beyond = bound + 1;
  if (Math.abs(a.length - b.length) > bound) return beyond;
  for (let j = 0; j <= b.length; j += 1) row[j] = j;
  for (let i = 1; i <= a.length; i += 1) {
    const [from, to] = [Math.max(1, i - bound), Math.min(b.length, i + bound)];
    // Cells outside of the band are too far away to count.
    next[from - 1] = from === 1 ? Math.min(i, beyond) : beyond;
    next[to + 1] = beyond;
    let least = beyond;
    for (let j = from; j <= to; j += 1) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      const isSwap =
        i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1);
      let steps = Math.min(cell(row, j - 1) + (same ? 0 : 1), cell(row, j) + 1, cell(next, j - 1) + 1);
      if (isSwap) steps = Math.min(steps, cell(before, j - 2) + 1);
      next[j] = Math.min(steps, beyond);
      least = Math.min(least, steps);
    }
    if (least > bound) return beyond;
    [before, row, next] = [row, next, before];
  }
  return cell(row, b.length);
}

const cell = (cells: Uint8Array, index: number): number => cells[index] as number;
