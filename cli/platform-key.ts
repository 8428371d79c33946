// Behind `make platform-key`: mints a platform key for onboarding and prints it, or revokes one.
import { validate as isUuid, v7 as uuidv7 } from 'uuid';
import { borrowEmbedded } from '../app/embedded-postgres/database.ts';
import { buildDatabaseSettings, type DatabaseSettings } from '../app/pools.ts';
import { insertApiKey, revokeApiKey } from '../db/access/api-keys.ts';
import { type AuditRow, buildSystemAuditRow } from '../db/client/change-log.ts';
import { migrate } from '../db/client/migrate.ts';
import { Pool } from '../db/client/pool.ts';
import { WriteTransaction } from '../db/client/write-transaction.ts';
import { platformScope } from '../domain/access/scopes.ts';
import { readConfig } from '../runtime/config.ts';
import { newApiKey } from '../runtime/credentials/secrets.ts';

const platformCompany = '00000000-0000-7000-8000-000000000000';

async function run(): Promise<void> {
  const config = readConfig(process.env);
  const note = (text: string): void => void process.stderr.write(`${text}\n`);
  const borrowed = config.databaseUrl === undefined ? await borrowEmbedded(config.dataDir, note) : undefined;
  const url = config.databaseUrl ?? (borrowed?.url as string);
  const settings = buildDatabaseSettings(url, config);
  try {
    // A database that a server uses is already migrated.
    if (!borrowed?.isInUse) await migrate(url);
    const revoked = process.env.REVOKE?.trim();
    if (revoked) await change(settings, (transaction) => revoke(transaction, revoked));
    else await change(settings, mint);
  } finally {
    await borrowed?.giveBack();
  }
}

/**
 * Runs one change under the role that row-level security binds, so the owner of the tables need not
 * be exempt from it.
 */
async function change(
  settings: DatabaseSettings,
  work: (transaction: WriteTransaction) => Promise<void>,
): Promise<void> {
  const pool = new Pool({ ...settings, role: 'crm_app', lanes: 1, wait: 5000, statementTimeout: 10_000 });
  try {
    const scope = { companyId: platformCompany, testMode: false };
    await work(await WriteTransaction.open(pool, scope));
  } finally {
    await pool.close(1);
  }
}

async function mint(transaction: WriteTransaction): Promise<void> {
  const made = newApiKey('live');
  const now = new Date();
  const id = uuidv7();
  const name = `Operator's key of ${now.toISOString().slice(0, 10)}`;
  const key = {
    id,
    name,
    description: null,
    environment: 'live' as const,
    prefix: made.prefix,
    last4: made.last4,
    scopes: [platformScope],
    perMinute: 600,
    perHour: 20_000,
    perDay: null,
    ipAllowlist: [],
    expiresAt: null,
    writeMode: 'direct' as const,
    reachKind: 'company' as const,
    reachId: null,
    createdById: 'operator',
    createdByName: null,
    createdAt: now,
  };
  await insertApiKey(transaction.sql, platformCompany, key, made.hash);
  const metadata = { name, scopes: key.scopes, last4: key.last4 };
  await transaction.commit([auditRow('api_key.create', id, metadata, now)], [], undefined, now, 10_000);
  process.stderr.write(
    `An API key for POST /v1/onboard and POST /v1/check-email. It is shown only once; only its digest is stored.\nTo revoke it: make platform-key REVOKE=${id}\n`,
  );
  process.stdout.write(`${made.key}\n`);
}

/** @throws Error if there is no active key with this id */
async function revoke(transaction: WriteTransaction, id: string): Promise<void> {
  const now = new Date();
  const found =
    isUuid(id) &&
    (await revokeApiKey(transaction.sql, platformCompany, id, 'operator', 'revoked by make platform-key', now));
  if (!found) throw new Error(`There is no active key with the id ${id}. The id was printed when the key was created.`);
  await transaction.commit([auditRow('api_key.revoke', id, null, now)], [], undefined, now, 10_000);
  process.stderr.write('Revoked. Requests with this key are rejected from now on.\n');
}

function auditRow(action: string, recordId: string, metadata: object | null, now: Date): AuditRow {
  const scope = { companyId: platformCompany, testMode: false };
  return {
    ...buildSystemAuditRow(scope, 'operator', action, { object: 'api_keys', recordId, metadata }, now),
    ip: 'local',
  };
}

run().catch((error: unknown) => {
  process.stderr.write(`Nothing was changed. ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
