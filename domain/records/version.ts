// Versions of records, as ETag and If-Match carry them, and the timestamps that go with them.

/** The entity tag of a version. */
export function etagOf({ version }: { version: number }): string {
  return `"${version}"`;
}

/** True when the header is absent, `*`, or names the version; proxies that compress mark a tag as weak, which says the same here. */
export function isMatch(ifMatch: string | undefined, version: number): boolean {
  if (ifMatch === undefined) return true;
  const tags = ifMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(`"${version}"`);
}

/**
 * The timestamp of a change: later than that of the change before it, whatever the clocks of servers say. A history in the order of its
 * timestamps is then in the order of the versions.
 * @param before the record, locked
 * @param now read after it was locked
 */
export function changeTime(before: { updatedAt: Date }, now: Date): Date {
  return new Date(Math.max(now.getTime(), before.updatedAt.getTime() + 1));
}
