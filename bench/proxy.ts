// A simulated network between server and database: adds latency and counts messages.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Proxy {
  /** URL of the database behind the proxy. */
  url: string;
  /**
   * Returns what was sent so far on connections of requests: writes, and statements (simple
   * queries, and executions of prepared ones).
   */
  sent(): { writes: number; statements: number };
  stop(): void;
}

/** @param milliseconds added latency, one way */
export async function startProxy(databaseUrl: string, milliseconds: number): Promise<Proxy> {
  const target = Number(new URL(databaseUrl).port);
  const sockets = new Set<Socket>();
  const sent = { writes: 0, statements: 0 };
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true });
    const count = messageCounter(sent);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes: Buffer) => {
        if (from === client) count(bytes);
        if (milliseconds === 0) to.write(bytes);
        else setTimeout(() => to.write(bytes), milliseconds);
      });
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on('error', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    sent: () => ({ ...sent }),
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Connections of jobs, whose work does not depend on requests. */
const jobs = /application_name\0crm (background|dispatcher|webhooks)/;

/** Parses PostgreSQL's protocol, version 3, as a client sends it. */
function messageCounter(sent: { writes: number; statements: number }): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  // The first message of a connection has no type byte.
  let head = 0;
  let counts = true;
  return (bytes) => {
    if (counts) sent.writes += 1;
    rest = rest.length > 0 ? Buffer.concat([rest, bytes]) : bytes;
    while (rest.length >= head + 4) {
      const size = head + rest.readInt32BE(head);
      if (rest.length < size) return;
      const type = head === 0 ? '' : String.fromCharCode(rest[0] as number);
      if (head === 0) counts = !jobs.test(rest.subarray(0, size).toString('latin1'));
      if (counts && (type === 'Q' || type === 'E')) sent.statements += 1;
      rest = rest.subarray(size);
      head = 1;
    }
  };
}
