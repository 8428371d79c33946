// Servers that forward connections to another address of this machine.
import { connect, createServer, type NetConnectOpts, type Server } from 'node:net';

export function forward(target: NetConnectOpts): Server {
  return createServer((from) => {
    const to = connect(target);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
}
