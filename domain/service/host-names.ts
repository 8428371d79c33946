// Syntax of host names.

/**
 * Returns true if a host in the form of the URL parser can be looked up: labels of 1 to 63 letters,
 * digits, hyphens and underscores, at most 253 characters, and an optional dot at the end. The URL
 * parser itself accepts `.` and `*.example`.
 */
export function isHostName(host: string): boolean {
  const name = host.endsWith('.') ? host.slice(0, -1) : host;
  return name.length <= 253 && name.split('.').every((label) => /^[\w-]{1,63}$/.test(label));
}
