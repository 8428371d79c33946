// A TCP proxy that can be slow, stall, swallow or reset connections.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** The bytes to pass on, and an action for afterwards. */
export interface Passed {
  bytes: Buffer;
  afterwards?: () => void;
}

/** Inspects the bytes of one connection, and decides what to pass on. */
export interface Watcher {
  toServer(chunk: Buffer): Passed;
  toClient(chunk: Buffer): Passed;
}

/**
 * pass: both directions. stall: nothing passes until the mode is pass again. swallow: all bytes are
 * lost, and neither side sees an end.
 */
export type Mode = 'pass' | 'stall' | 'swallow';

/**
 * Milliseconds after which PostgreSQL finds a silent connection dead, as db/client/pool.ts
 * configures.
 */
const probed = 11_000;

/** One connection through the proxy. */
export class Link {
  readonly client: Socket;
  readonly upstream: Socket;
  /** Resolves when the server has closed its side. */
  readonly closed: Promise<void>;
  /** True if bytes were lost, so that later ones would be meaningless. */
  #lost = false;
  /** True if the ends of the connection are swallowed as well. */
  #silent = false;

  constructor(client: Socket, upstream: Socket, proxy: FaultProxy, watch: ((link: Link) => Watcher) | undefined) {
    this.client = client;
    this.upstream = upstream;
    const watcher = watch?.(this);
    this.closed = new Promise((resolve) => upstream.on('close', () => resolve()));
    this.#pump(client, upstream, proxy, (chunk) => watcher?.toServer(chunk) ?? { bytes: chunk });
    this.#pump(upstream, client, proxy, (chunk) => watcher?.toClient(chunk) ?? { bytes: chunk });
  }

  #pump(from: Socket, to: Socket, proxy: FaultProxy, through: (chunk: Buffer) => Passed): void {
    let last = Promise.resolve();
    let waiting = 0;
    const later = (act: () => void): void => {
      if (proxy.delay === 0 && waiting === 0) {
        act();
        return;
      }
      const wait = proxy.delay;
      waiting += 1;
      // In order, regardless of the delay of earlier bytes.
      last = Promise.all([last, new Promise((resolve) => setTimeout(resolve, wait))]).then(() => {
        waiting -= 1;
        act();
      });
    };
    from.setNoDelay(true);
    from.on('data', (chunk: Buffer) => {
      if (proxy.mode === 'swallow') this.silence();
      if (this.#lost) return;
      const { bytes, afterwards } = through(chunk);
      if (bytes.length === 0 && !afterwards) return;
      later(() => {
        if (to.writable && bytes.length > 0) to.write(bytes);
        afterwards?.();
      });
    });
    const end = (): void => {
      if (this.#swallows(proxy)) from.destroy();
      else later(() => to.end());
    };
    from.on('end', end).on('close', end);
    from.on('error', () => {
      if (!this.#swallows(proxy)) to.resetAndDestroy();
    });
  }

  #swallows(proxy: FaultProxy): boolean {
    return this.#silent || proxy.mode === 'swallow';
  }

  /** Passes on no more bytes in either direction, only the end. */
  lose(): void {
    this.#lost = true;
  }

  /** Loses everything from here on, including the end, like a machine without a network. */
  silence(): void {
    if (this.#silent) return;
    this.#lost = true;
    this.#silent = true;
    // The operating system answers keepalive probes that a dead network would not. This timer
    // replaces them.
    setTimeout(() => this.upstream.destroy(), probed).unref();
  }

  /** Resets the client's connection. The server reads what was passed on, and then the end. */
  reset(): void {
    this.client.resetAndDestroy();
    this.upstream.end();
  }

  setStalled(stalled: boolean): void {
    for (const socket of [this.client, this.upstream]) {
      if (stalled) socket.pause();
      else socket.resume();
    }
  }
}

export class FaultProxy {
  readonly links = new Set<Link>();
  /** Milliseconds of delay in each direction. */
  delay = 0;
  readonly #server: Server;
  #mode: Mode = 'pass';

  private constructor(target: number, watch: ((link: Link) => Watcher) | undefined) {
    this.#server = createServer({ allowHalfOpen: true }, (client) => {
      const upstream = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true });
      const link = new Link(client, upstream, this, watch);
      this.links.add(link);
      link.setStalled(this.#mode === 'stall');
      void link.closed.then(() => this.links.delete(link));
    });
  }

  static async start(target: number, watch?: (link: Link) => Watcher): Promise<FaultProxy> {
    const proxy = new FaultProxy(target, watch);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get mode(): Mode {
    return this.#mode;
  }

  set mode(mode: Mode) {
    this.#mode = mode;
    for (const link of this.links) link.setStalled(mode === 'stall');
  }

  /** Resets all current connections. */
  reset(): void {
    for (const link of this.links) link.reset();
  }

  /**
   * Resolves when the server has closed all current connections, so that everything sent on them
   * has run.
   */
  async drained(): Promise<void> {
    await Promise.all([...this.links].map((link) => link.closed));
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const link of this.links) {
      link.client.destroy();
      link.upstream.destroy();
    }
    await closed;
  }
}

/** Returns the same address through a proxy. */
export function through(url: string, proxy: FaultProxy): string {
  const changed = new URL(url);
  changed.port = String(proxy.port);
  return changed.href;
}
