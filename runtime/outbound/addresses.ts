// Which addresses the server may call in somebody else's name: global unicast, and nothing else.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** What of IPv6 is given out to networks; what lies outside is local, mapped, translated or reserved. */
const givenOut = ipaddr.parseCIDR('2000::/3');

/** True for an address that anybody on the internet could call; false too for what is no address. */
export function isGlobalUnicast(address: string): boolean {
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || parsed.match(givenOut);
}
