// A network that fails on command: a TCP proxy that can be slow, stall, swallow, or reset.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What goes on, and what happens after that. */
export interface Passed {
  bytes: Buffer;
  afterwards?: () => void;
}

/** Looks at what passes on one connection, and says what of it goes on. */
export interface Watcher {
  toServer(chunk: Buffer): Passed;
  toClient(chunk: Buffer): Passed;
}

/** pass: both ways. stall: nothing passes until it is pass again. swallow: everything is taken and lost, and nobody learns of an end. */
export type Mode = 'pass' | 'stall' | 'swallow';

/** Milliseconds after which a silent connection is found dead: as db/client/pool.ts asks PostgreSQL for. */
const probed = 11_000;

/** One connection through the proxy. */
export class Link {
  readonly client: Socket;
  readonly upstream: Socket;
  /** Resolves when the server has closed its side. */
  readonly closed: Promise<void>;
  /** True once bytes were lost on it: what follows would be nonsense. */
  #lost = false;
  /** True when not even its end is told. */
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
      // In order, whatever the delay was for those before.
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

  /** Hands nothing on any more, either way, but its end. */
  lose(): void {
    this.#lost = true;
  }

  /** Loses everything from here on, and tells nobody of an end: as a machine that lost its network. */
  silence(): void {
    if (this.#silent) return;
    this.#lost = true;
    this.#silent = true;
    // The system below answers probes that a dead network would not; this is when PostgreSQL would have noticed.
    setTimeout(() => this.upstream.destroy(), probed).unref();
  }

  /** The client sees the connection fail; the server comes to its end when it has read what was handed on. */
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
  /** Milliseconds that everything takes longer, each way. */
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

  /** All connections that there are fail now. */
  reset(): void {
    for (const link of this.links) link.reset();
  }

  /** Resolves when the server has closed all connections that there are now: what was sent on them has run. */
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

/** The same address behind a proxy. */
export function through(url: string, proxy: FaultProxy): string {
  const changed = new URL(url);
  changed.port = String(proxy.port);
  return changed.href;
}
