// The order of a configured list, which callers give by position.

/** The ids in order with one of them at a position, counted from 1; at the end when none is given or there are fewer. */
export function placed(ids: readonly string[], id: string, position: number | undefined): string[] {
  const others = ids.filter((each) => each !== id);
  return others.toSpliced(position === undefined ? others.length : position - 1, 0, id);
}
