// Versions of records, as ETag and If-Match carry them.

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
