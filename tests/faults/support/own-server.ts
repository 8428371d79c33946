// A server that is killed and started again, always at the same address.
import { setTimeout as sleep } from 'node:timers/promises';
import { anyAddress } from '../../support/client.ts';
import { freePort } from '../../support/free-port.ts';
import { startServer, type TestServer } from '../../support/servers.ts';

export class OwnServer {
  readonly url: string;
  readonly #settings: Record<string, string>;
  #server: TestServer | undefined;
  /** Settles when it has started; undefined where it does not start just now. */
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

  /** One with an address, that does not run yet. */
  static async prepare(settings: Record<string, string>): Promise<OwnServer> {
    return new OwnServer(await freePort(), settings);
  }

  get pid(): number {
    if (!this.#server) throw new Error('the server does not run');
    return this.#server.pid;
  }

  /** What it logged as a fault of its own, since its first start. */
  get failures(): readonly string[] {
    this.#collect();
    return this.#failures;
  }

  /** Alerts that it has raised since it was started last. */
  alerts(): object[] {
    const lines = (this.#server?.output() ?? '').split('\n');
    return lines.filter((line) => line.includes('"severity":"critical"')).map((line) => JSON.parse(line));
  }

  #collect(): void {
    const lines = (this.#server?.output() ?? '').split('\n');
    const found = lines.filter((line) => line.includes('"msg":"unexpected error"'));
    for (const line of found) if (!this.#failures.includes(line)) this.#failures.push(line);
  }

  /** Starts it; ends it before by SIGKILL if it still runs. */
  async restart(): Promise<void> {
    await this.kill();
    if (this.#isOver) throw new Error('the run has ended');
    this.#starting = startServer(this.#settings);
    this.#server = await this.#starting.finally(() => {
      this.#starting = undefined;
    });
  }

  /** Kills it for good: whoever is about to start it again does not. */
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

  /** Asks it to stop, and waits until it has. @returns its exit code */
  async stop(): Promise<number | null> {
    const code = await this.#server?.stop('SIGTERM');
    this.#collect();
    this.#server = undefined;
    return code ?? null;
  }

  /** Milliseconds until its health is good. @throws Error when it takes too long */
  async untilHealthy(milliseconds = 60_000): Promise<number> {
    const started = performance.now();
    for (;;) {
      // From another address each time: an address may ask for health only so often.
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
