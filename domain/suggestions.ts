// What somebody probably meant: the one known name that is closest to an unknown one.

const longest = 60;

/**
 * The closest of the names, or undefined when none is close. Case and punctuation do not count.
 * @param names only those that the caller may see: a suggestion tells that they exist
 */
export function closest(given: string, names: Iterable<string>): string | undefined {
  const wanted = plain(given);
  if (given.length > longest || wanted === '') return undefined;
  let best: string | undefined;
  let least = wanted.length < 3 ? 0 : wanted.length < 6 ? 1 : 2;
  for (const name of names) {
    const known = plain(name.slice(0, longest));
    const away = beginsWith(wanted, known) ? Math.min(1, least) : distance(wanted, known, least);
    if (away > least || (best !== undefined && away === least)) continue;
    best = name;
    least = away;
    if (least === 0) break;
  }
  return best;
}

const plain = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');

/** True when one is the beginning of the other, as in phone and phone_number; short beginnings say nothing. */
function beginsWith(a: string, b: string): boolean {
  return a !== b && Math.min(a.length, b.length) >= 4 && (a.startsWith(b) || b.startsWith(a));
}

/**
 * Letters that were added, left out, replaced or swapped with their neighbour.
 * @returns more than the bound, without counting on, when there are more; so the work grows with the length, not with its square
 */
function distance(a: string, b: string, bound: number): number {
  const beyond = bound + 1;
  if (Math.abs(a.length - b.length) > bound) return beyond;
  let [before, row]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const next: number[] = Array(b.length + 1).fill(beyond);
    if (i <= bound) next[0] = i;
    let least = next[0] ?? beyond;
    for (let j = Math.max(1, i - bound); j <= Math.min(b.length, i + bound); j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const at = (cells: number[], index: number): number => cells[index] ?? beyond;
      let steps = Math.min(at(row, j - 1) + same, at(row, j) + 1, at(next, j - 1) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        steps = Math.min(steps, at(before, j - 2) + 1);
      next[j] = steps;
      least = Math.min(least, steps);
    }
    if (least > bound) return beyond;
    [before, row] = [row, next];
  }
  return row[b.length] ?? beyond;
}
