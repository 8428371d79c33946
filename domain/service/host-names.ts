// Which host names can lead anywhere.

/**
 * Whether a host, as the URL parser writes it, can be looked up: labels of 1 to 63 letters, digits, hyphens and
 * underscores, 253 characters at most, and a dot at the end if need be. The URL parser itself takes `.` and `*.example`.
 */
export function isHostName(host: string): boolean {
  const name = host.endsWith('.') ? host.slice(0, -1) : host;
  return name.length <= 253 && name.split('.').every((label) => /^[\w-]{1,63}$/.test(label));
}
