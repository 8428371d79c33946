// The test rig of a long run: PostgreSQL and Redis behind proxies, and two servers.
import postgres from 'postgres';
import { OwnDatabase } from '../../support/own-database.ts';
import { findProgram } from '../../support/programs.ts';
import { TestRedis } from '../../support/redis.ts';
import { OwnServer } from './own-server.ts';
import { Traps } from './points.ts';
import { FaultProxy, through } from './proxy.ts';
import { settingsFor } from './settings.ts';

export class TestRig {
  readonly traps = new Traps();
  readonly database: OwnDatabase;
  readonly databaseProxy: FaultProxy;
  /** Undefined if this machine has no Redis. */
  readonly redis: TestRedis | undefined;
  readonly redisProxy: FaultProxy | undefined;
  readonly server: OwnServer;
  /** Runs only while the first server is stopped by SIGTERM. */
  readonly second: OwnServer;

  private constructor(parts: Omit<TestRig, 'stop' | 'traps'> & { traps: Traps }) {
    this.traps = parts.traps;
    this.database = parts.database;
    this.databaseProxy = parts.databaseProxy;
    this.redis = parts.redis;
    this.redisProxy = parts.redisProxy;
    this.server = parts.server;
    this.second = parts.second;
  }

  static async start(folder: string): Promise<TestRig> {
    const traps = new Traps();
    const database = await OwnDatabase.start(folder);
    await noteCommitTimes(database);
    const databaseProxy = await FaultProxy.start(database.port, traps.watch);
    const redis = findProgram('redis') ? await TestRedis.start() : undefined;
    const redisProxy = redis && (await FaultProxy.start(redis.port));
    const settings = {
      ...settingsFor(through(database.url, databaseProxy), folder),
      ...(redis && redisProxy ? { REDIS_URL: through(redis.url, redisProxy) } : {}),
      // Fewer connections than writers, so that some wait for one.
      DATABASE_POOL: '8',
    };
    const server = await OwnServer.start(settings);
    const second = await OwnServer.prepare(settings);
    return new TestRig({ traps, database, databaseProxy, redis, redisProxy, server, second });
  }

  /** Stops every process that it started. */
  async stop(): Promise<void> {
    await Promise.all([this.server.end(), this.second.end()]);
    this.redis?.resume();
    await this.redis?.kill();
    await this.redisProxy?.close();
    await this.databaseProxy.close();
    await this.database.remove();
  }
}

/** Makes PostgreSQL record commit times. */
async function noteCommitTimes(database: OwnDatabase): Promise<void> {
  const sql = postgres(database.url, { max: 1 });
  await sql`alter system set track_commit_timestamp = on`;
  await sql.end();
  await database.stop();
  await database.restart();
}
