// Versions of records for ETag and If-Match, and timestamps of changes.

/** Returns the entity tag of a version. */
export function toEtag({ version }: { version: number }): string {
  return `"${version}"`;
}

/**
 * Returns true if the header is absent, `*`, or contains the version. Compressing proxies mark a
 * tag as weak, which means the same here.
 */
export function isMatch(ifMatch: string | undefined, version: number): boolean {
  if (ifMatch === undefined) return true;
  const tags = ifMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(`"${version}"`);
}

/**
 * Returns the timestamp of a change. It is later than that of the previous change, even if the
 * clocks of servers differ. So the order of timestamps is the order of versions.
 * @param before the record, locked
 * @param now read after it was locked
 */
export function computeChangeTime(before: { updatedAt: Date }, now: Date): Date {
  return new Date(Math.max(now.getTime(), before.updatedAt.getTime() + 1));
}
