// For servers that are measured: they report their port to the parent, and exit with it.
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Listens on a free loopback port and announces it. */
export function listen(server: Server): void {
  server.listen(0, '127.0.0.1', 1024, () => announcePort(server));
}

export function announcePort(server: Server): void {
  process.send?.({ port: (server.address() as AddressInfo).port });
  process.on('disconnect', () => process.exit(0));
}
