// A server on a separate database with paused jobs, which tests run by hand.
import { inject } from 'vitest';
import { useServer } from './client.ts';
import { dropDatabase, newDatabase } from './databases.ts';
import { startServer, type TestServer } from './servers.ts';
import { testSettings } from './setup.ts';
import { useDatabase } from './tenants.ts';

export class PausedJobs {
  readonly url: string;
  readonly #server: TestServer;

  private constructor(url: string, server: TestServer) {
    this.url = url;
    this.#server = server;
  }

  /**
   * Makes this test file use that database and server.
   * @param names of the paused jobs
   */
  static async of(...names: string[]): Promise<PausedJobs> {
    const url = await newDatabase();
    const settings = { ...testSettings, DATABASE_URL: url, SECRET_KEY: inject('secretKey'), DATA_DIR: '.test-data' };
    const server = await startServer({ ...settings, PAUSED_JOBS: names.join() });
    useServer(server.url);
    await useDatabase(url);
    return new PausedJobs(url, server);
  }

  /** Returns the log of the server so far. */
  output(): string {
    return this.#server.output();
  }

  async close(): Promise<void> {
    useServer(undefined);
    await useDatabase(undefined);
    await this.#server.stop();
    await dropDatabase(this.url);
  }
}
