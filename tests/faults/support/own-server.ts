// A server that is killed and restarted at the same address.
import { setTimeout as sleep } from 'node:timers/promises';
import { anyAddress } from '../../support/client.ts';
import { findFreePort } from '../../support/free-port.ts';
import { startServer, type TestServer } from '../../support/servers.ts';

export class OwnServer {
  readonly url: string;
  readonly #settings: Record<string, string>;
  #server: TestServer | undefined;
  /** The start in progress, or undefined. */
  #starting: Promise<TestServer> | undefined;
  #isOver = false;
  readonly #failures: string[] = [];

  private constructor(port: number, settings: Record<string, string>) {
    this.url = `http://127.0.0.1:${port}`;
    this.#settings = { ...settings, PORT: String(port) };
  }

  static async start(settings: Record<string, string>): Promise<OwnServer> {
    const server = await OwnServer.prepare(settings);
    await server.restart();
    return server;
  }

  /** Returns a server with an address that does not run yet. */
  static async prepare(settings: Record<string, string>): Promise<OwnServer> {
    return new OwnServer(await findFreePort(), settings);
  }

  get pid(): number {
    if (!this.#server) throw new Error('the server does not run');
    return this.#server.pid;
  }

  /** Returns what the running server has logged. */
  output(): string {
    return this.#server?.output() ?? '';
  }

  /** Unexpected errors that it logged since its first start. */
  get failures(): readonly string[] {
    this.#collect();
    return this.#failures;
  }

  /** Critical alerts since the last start. */
  alerts(): object[] {
    const lines = (this.#server?.output() ?? '').split('\n');
    return lines.filter((line) => line.includes('"severity":"critical"')).map((line) => JSON.parse(line));
  }

  #collect(): void {
    const lines = (this.#server?.output() ?? '').split('\n');
    const found = lines.filter((line) => line.includes('"msg":"unexpected error"'));
    for (const line of found) if (!this.#failures.includes(line)) this.#failures.push(line);
  }

  /** Starts the server, and kills it first if it runs. */
  async restart(): Promise<void> {
    await this.kill();
    if (this.#isOver) throw new Error('the run has ended');
    this.#starting = startServer(this.#settings);
    this.#server = await this.#starting.finally(() => {
      this.#starting = undefined;
    });
  }

  /** Kills the server permanently, so a later restart fails. */
  async end(): Promise<void> {
    this.#isOver = true;
    await (await this.#starting?.catch(() => undefined))?.stop('SIGKILL');
    await this.kill();
  }

  async kill(): Promise<void> {
    await this.#server?.stop('SIGKILL');
    this.#collect();
    this.#server = undefined;
  }

  /**
   * Stops the server with SIGTERM.
   * @returns its exit code
   */
  async stop(): Promise<number | null> {
    const code = await this.#server?.stop('SIGTERM');
    this.#collect();
    this.#server = undefined;
    return code ?? null;
  }

  /**
   * Waits until the server is healthy.
   * @returns the milliseconds
   * @throws Error on timeout
   */
  async untilHealthy(milliseconds = 60_000): Promise<number> {
    const started = performance.now();
    for (;;) {
      // Another address each time, because the health check has a rate limit per address.
      const headers = { 'x-forwarded-for': anyAddress() };
      const text = await fetch(`${this.url}/v1/health`, { headers, signal: AbortSignal.timeout(milliseconds) }).then(
        (response) => response.text(),
        () => '',
      );
      if (text.includes('"status":"ok"')) return performance.now() - started;
      if (performance.now() - started > milliseconds) throw new Error(`${this.url} is not healthy again`);
      await sleep(10);
    }
  }
}
