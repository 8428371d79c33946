// An S3-compatible store on this machine.
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';

interface Store {
  run(): Promise<AddressInfo>;
  close(): Promise<void>;
}

const StoreServer = createRequire(import.meta.url)('s3rver') as new (options: object) => Store;

export class ObjectStore {
  /** The folder of the files. */
  readonly #directory: string;
  #port = 0;
  #store: Store | undefined;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async start(directory: string): Promise<ObjectStore> {
    const store = new ObjectStore(directory);
    await store.restart();
    return store;
  }

  /** The setting STORAGE. */
  get address(): string {
    return `s3://S3RVER:S3RVER@127.0.0.1:${this.#port}/files?tls=0&region=eu-central-1`;
  }

  /** Starts the store at the same address, after it was closed. */
  async restart(): Promise<void> {
    this.#store = new StoreServer({
      port: this.#port,
      address: '127.0.0.1',
      silent: true,
      directory: this.#directory,
      configureBuckets: [{ name: 'files' }],
    });
    this.#port = (await this.#store.run()).port;
  }

  async close(): Promise<void> {
    await this.#store?.close();
  }
}
