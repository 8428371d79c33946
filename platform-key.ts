// The operator's command behind `make platform-key`: mints a key of the platform with the scope onboarding and prints it once.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { insertApiKey } from './db/api-keys.ts';
import { Pool } from './db/connect.ts';
import { type EmbeddedDatabase, findRunning, startEmbedded } from './db/embedded.ts';
import { migrate } from './db/migrate.ts';
import { Transaction } from './db/transaction.ts';
import { platformScope } from './domain/scopes.ts';
import { readConfig } from './runtime/config.ts';
import { newApiKey } from './runtime/secrets.ts';

const platformCompany = '00000000-0000-7000-8000-000000000000';

async function run(): Promise<void> {
  const config = readConfig(process.env);
  const running = config.databaseUrl === undefined ? findRunning(config.dataDir) : undefined;
  let embedded: EmbeddedDatabase | undefined;
  if (config.databaseUrl === undefined && running === undefined)
    embedded = await startEmbedded(config.dataDir, (text) => process.stderr.write(`${text}\n`));
  const url = config.databaseUrl ?? running ?? (embedded?.url as string);
  try {
    // A database that a server runs on has its tables already.
    if (running === undefined) await migrate(url);
    const key = await mint(url);
    process.stderr.write(
      'A key for POST /v1/onboard and POST /v1/check-email, shown this once. Only its digest is stored.\n',
    );
    process.stdout.write(`${key}\n`);
  } finally {
    await embedded?.stop();
  }
}

/** Writes the key with its audit row, under the role that row-level security binds: the owner of the tables need not be above it. */
async function mint(url: string): Promise<string> {
  const pool = new Pool({ url, role: 'crm_app', lanes: 1, prepare: false, wait: 5000, statementTimeout: 10_000 });
  try {
    const scope = { companyId: platformCompany, testMode: false };
    const transaction = new Transaction(pool, await pool.acquire(), scope);
    const made = newApiKey('live');
    const now = new Date();
    const id = uuidv7();
    const name = `Operator's key of ${now.toISOString().slice(0, 10)}`;
    const key = {
      ...{ id, name, description: null, environment: 'live' as const, prefix: made.prefix, last4: made.last4 },
      ...{ scopes: [platformScope], perMinute: 600, perHour: 20_000, perDay: null, ipAllowlist: [], expiresAt: null },
      ...{ reachKind: 'company' as const, reachId: null, createdById: 'operator', createdByName: null, createdAt: now },
    };
    await insertApiKey(transaction.sql, platformCompany, key, made.hash);
    const audit = {
      companyId: platformCompany,
      occurredAt: now,
      actorKind: 'system',
      actorId: 'operator',
      apiKeyId: null,
      keyName: null,
      requestId: randomUUID(),
      ip: 'local',
      userAgent: null,
      action: 'api_key.create',
      object: 'api_keys',
      recordId: id,
      changes: null,
      metadata: { name, scopes: key.scopes, last4: key.last4 },
      testMode: false,
      idempotencyKeyHash: null,
    };
    await transaction.commit([audit], [], undefined, now, 10_000);
    return made.key;
  } finally {
    await pool.close(1);
  }
}

run().catch((error: unknown) => {
  process.stderr.write(`No key was minted. ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
