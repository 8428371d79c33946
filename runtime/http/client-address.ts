// The client's address: the rightmost hop of X-Forwarded-For that is not a trusted proxy.
import { BlockList, isIP } from 'node:net';

/**
 * Returns the plain IPv4 address if Node reports an IPv4 client of a dual-stack socket as
 * ::ffff:a.b.c.d.
 */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

const mappedAddresses = new BlockList();
mappedAddresses.addSubnet('::ffff:0:0', 96, 'ipv6');

/**
 * Returns true for an IPv4 or IPv6 address or a CIDR range. Rejects addresses with a zone
 * (fe80::1%eth0), which are valid on one machine only. Also rejects IPv4-mapped IPv6 addresses,
 * because plainAddress removes that form from clients' addresses.
 */
export function isAddressRange(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/');
  const family = address.includes('%') ? 0 : isIP(address);
  if (family === 0 || rest.length > 0 || (family === 6 && mappedAddresses.check(address, 'ipv6'))) return false;
  return prefix === undefined || (/^(0|[1-9]\d{0,2})$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128));
}

/** Builds a set of addresses and CIDR ranges. Ignores entries that are neither. */
export function createAddressSet(entries: readonly string[]): { size: number; has(address: string): boolean } {
  // One list per family: a single BlockList treats IPv4 addresses as members of ::/0.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  let size = 0;
  for (const entry of entries) {
    const [address = '', prefix] = entry.split('/');
    const family = isIP(address);
    if (!family) continue;
    const type = family === 4 ? 'ipv4' : 'ipv6';
    if (prefix === undefined) lists[type].addAddress(address, type);
    else lists[type].addSubnet(address, Number(prefix), type);
    size += 1;
  }
  return {
    size,
    has(address) {
      const family = isIP(address);
      const type = family === 4 ? 'ipv4' : 'ipv6';
      return family !== 0 && lists[type].check(address, type);
    },
  };
}

/** Returns a function from the socket's address and the X-Forwarded-For header to the client's address. */
export function createClientAddressReader(
  trustedProxies: readonly string[],
): (socketAddress: string, forwardedFor: string | undefined) => string {
  const trusted = createAddressSet(trustedProxies);
  return (socketAddress, forwardedFor) => {
    let address = plainAddress(socketAddress);
    if (forwardedFor === undefined || trusted.size === 0 || !trusted.has(address)) return address;
    const hops = forwardedFor.split(',').map((hop) => plainAddress(hop.trim()));
    for (let index = hops.length - 1; index >= 0; index -= 1) {
      const hop = hops[index] as string;
      if (!isIP(hop)) return address;
      address = hop;
      if (!trusted.has(hop)) return address;
    }
    return address;
  };
}
