// Decides which addresses the server may call on behalf of tenants: only global unicast.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The part of IPv6 that is assigned to networks. The rest is local, mapped, translated or reserved.
 */
const assignedIpv6 = ipaddr.parseCIDR('2000::/3');

/** Returns true for a public IP address; false for any other text. */
export function isGlobalUnicast(address: string): boolean {
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || parsed.match(assignedIpv6);
}
