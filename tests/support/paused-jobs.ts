// A server on a database of its own that leaves jobs to the tests, which run them by hand.
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

  /** From now on this test file arranges there, and calls that server. @param names of jobs */
  static async of(...names: string[]): Promise<PausedJobs> {
    const url = await newDatabase();
    const settings = { ...testSettings, DATABASE_URL: url, SECRET_KEY: inject('secretKey'), DATA_DIR: '.test-data' };
    const server = await startServer({ ...settings, PAUSED_JOBS: names.join() });
    useServer(server.url);
    await useDatabase(url);
    return new PausedJobs(url, server);
  }

  async close(): Promise<void> {
    useServer(undefined);
    await useDatabase(undefined);
    await this.#server.stop();
    await dropDatabase(this.url);
  }
}
