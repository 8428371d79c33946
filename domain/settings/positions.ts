// The order of a configured list, which callers set by position.

/**
 * Returns the ids in order, with one of them at a position, counted from 1. Without a position, or
 * if there are fewer, it is the last.
 */
export function moveToPosition(ids: readonly string[], id: string, position: number | undefined): string[] {
  const others = ids.filter((each) => each !== id);
  return others.toSpliced(position === undefined ? others.length : position - 1, 0, id);
}
