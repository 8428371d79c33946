// Runs a server in a network namespace without routes, reachable through sockets in a folder.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { resolve } from 'node:path';
import { cheapPasswords, startServer, type TestServer } from './servers.ts';
import { forward } from './socket-forwarding.ts';

/** In a new user namespace as root, unless this is root already. */
const namespaces = process.getuid?.() === 0 ? ['--net', '--mount'] : ['--map-root-user', '--net', '--mount'];

/** Returns why no such network can be created here, or undefined. */
export function noRoutesRefusal(): string | undefined {
  const script = 'ip link set lo up && mount --bind /etc/hosts /etc/resolv.conf';
  const { status, error, stderr } = spawnSync('unshare', [...namespaces, 'sh', '-c', script], { encoding: 'utf8' });
  return status === 0 ? undefined : (error?.message ?? (stderr.trim() || 'unshare is not permitted'));
}

export class ServerWithoutRoutes {
  readonly url: string;
  readonly #folder: string;
  readonly #server: TestServer;
  readonly #ways: readonly Server[];

  private constructor(folder: string, url: string, server: TestServer, ways: readonly Server[]) {
    this.#folder = folder;
    this.url = url;
    this.#server = server;
    this.#ways = ways;
  }

  /** @param settings with a DATABASE_URL as this process reaches it */
  static async start(settings: Record<string, string> & { DATABASE_URL: string }): Promise<ServerWithoutRoutes> {
    const folder = resolve('.test-data', `no-routes-${process.pid}`);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const names = resolve(folder, 'resolv.conf');
    writeFileSync(names, 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n');
    const database = new URL(settings.DATABASE_URL);
    const databasePort = Number(database.port);
    const inside = resolve(folder, 'server.sock');
    const toDatabase = forward({ port: databasePort }).listen(resolve(folder, 'database.sock'));
    const toServer = forward({ path: inside }).listen(0, '127.0.0.1');
    const ways = [toDatabase, toServer];
    await Promise.all(ways.map((way) => once(way, 'listening')));
    const port = 10_000;
    const url = `http://127.0.0.1:${(toServer.address() as AddressInfo).port}`;
    const entering = `ip link set lo up && mount --bind ${names} /etc/resolv.conf && exec "$@"`;
    const loaded = new URL('./no-routes-inside.ts', import.meta.url);
    const server = await startServer(
      {
        ...settings,
        PORT: String(port),
        BASE_URL: url,
        DATA_DIR: folder,
        NO_ROUTES_FOLDER: folder,
        NO_ROUTES_DATABASE_PORT: String(databasePort),
        NO_ROUTES_PORT: String(port),
        NODE_OPTIONS: `${cheapPasswords} --import=${loaded}`,
      },
      { wrapper: ['unshare', ...namespaces, 'sh', '-c', entering, 'sh'] },
    );
    return new ServerWithoutRoutes(folder, url, server, ways);
  }

  /** Its log so far. */
  output(): string {
    return this.#server.output();
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    for (const way of this.#ways) way.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Names that the name server in that network knows, by their address families. */
export const namesWithoutRoutes = ['six.test', 'four.test', 'both.test'] as const;
