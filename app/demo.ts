// Creates the demo workspace on the first start, and formats the greeting.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { v7 as uuidv7 } from 'uuid';
import { saveGrant } from '../db/access/oauth-grants.ts';
import { insertDeliveries } from '../db/automation/webhook-deliveries.ts';
import { insertWebhook } from '../db/automation/webhooks.ts';
import type { Sql } from '../db/client/pool.ts';
import { insertWorkforces } from '../db/demo/automation.ts';
import { insertDemoBilling } from '../db/demo/billing.ts';
import {
  deleteExamples,
  enterTestMode,
  findDemo,
  inDemoTransaction,
  insertConfiguration,
  insertDemoKey,
  insertRecords,
  mergeExamples,
  setPassword,
} from '../db/demo/demo.ts';
import { insertChangeSets } from '../db/demo/example-change-sets.ts';
import { insertImports } from '../db/demo/example-imports.ts';
import { insertReverts } from '../db/demo/example-reverts.ts';
import { insertMeetings } from '../db/demo/meetings.ts';
import { insertMessaging } from '../db/demo/messaging.ts';
import { createCompany } from '../db/onboarding/onboarding.ts';
import { eventCatalogue } from '../domain/automation/event-catalogue.ts';
import { buildDemoWorkforces } from '../domain/demo/automation.ts';
import { buildDemoBilling } from '../domain/demo/billing.ts';
import { buildDemoData, demoSeed, leadCount } from '../domain/demo/data.ts';
import { buildDemoChangeSets } from '../domain/demo/example-change-sets.ts';
import { buildDemoImports, demoErrorFile } from '../domain/demo/example-imports.ts';
import { buildDemoReverts } from '../domain/demo/example-reverts.ts';
import {
  buildAccountsOfMerges,
  buildDeletedAccounts,
  buildExampleDelivery,
  buildExampleExports,
  buildExampleFile,
  buildExampleLinks,
  emptyTeam,
  exampleActivityType,
  exampleKeys,
  exampleLinkTypes,
  examplePipeline,
  exampleSavedReports,
  exampleSlaPolicy,
  exampleStatus,
  exampleTeam,
  exampleViews,
  exampleWebhook,
} from '../domain/demo/examples.ts';
import { exampleIds } from '../domain/demo/ids.ts';
import { buildDemoMeetings } from '../domain/demo/meetings.ts';
import { buildDemoMessaging } from '../domain/demo/messaging.ts';
import { addDays } from '../domain/demo/random.ts';
import {
  demoAdmin as admin,
  demoCompanyId as companyId,
  customFields,
  customObject,
  demoCompany,
  emptyBranch,
  secondBranch,
  sources,
  tags,
} from '../domain/demo/workspace.ts';
import { activityTypes, dealStatuses, leadStatuses, pipelineName, taskTypes } from '../domain/onboarding/defaults.ts';
import { buildStorageKey } from '../domain/records/file-names.ts';
import { buildStandardPolicy } from '../domain/scheduling/policies.ts';
import { hashPassword } from '../runtime/credentials/passwords.ts';
import { newApiKey, type Secrets, sha256 } from '../runtime/credentials/secrets.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import { newSigningSecret } from '../runtime/outbound/signed-posts.ts';

export interface Demo {
  key: string;
  /** undefined if it was changed. */
  password: string | undefined;
}

/** Printed at every start. The database stores only hashes, so the data folder keeps the texts. */
interface Kept {
  key: string;
  password: string;
  /** The hash at that time. If the database has another one, the password was changed. */
  password_hash: string;
}

/**
 * Creates the demo workspace unless it exists. Replaces a key that no longer works, and a lost
 * demo.json.
 * @param url connection of a user that may take the server's roles
 */
export function ensureDemo(
  url: string,
  dataDir: string,
  { storage, secrets }: { storage: FileStorage; secrets: Secrets },
  now: Date,
): Promise<Demo> {
  const file = join(dataDir, 'demo.json');
  return inDemoTransaction(url, async (sql) => {
    const kept = readKept(file);
    const keyHash = kept ? sha256(kept.key) : null;
    const found = await findDemo(sql, { companyId, email: admin.email, keyHash }, now);
    if (kept && found.exists && found.keyWorks) return toDemo(kept, found.passwordHash);
    const { key, ...made } = newApiKey('test');
    const signIn = (found.exists && kept) || (await makeSignIn());
    if (!found.exists) {
      const file = await storeExample(storage, dataDir);
      await makeWorkspace(sql, signIn.password_hash, file, now);
      await makeWebhook(sql, secrets, now);
    }
    if (found.exists && !kept) await setPassword(sql, companyId, admin.email, signIn.password_hash);
    await insertDemoKey(sql, companyId, made, { ...demoKey, id: uuidv7() }, now);
    // Saved before the commit, so that another server that waits for the lock reads it.
    keep(file, { ...signIn, key });
    return toDemo({ ...signIn, key }, found.exists && kept ? found.passwordHash : signIn.password_hash);
  });
}

function toDemo(kept: Kept, passwordHash: string | null): Demo {
  return { key: kept.key, password: kept.password_hash === passwordHash ? kept.password : undefined };
}

async function makeSignIn(): Promise<Omit<Kept, 'key'>> {
  const password = randomBytes(8).toString('hex');
  return { password, password_hash: await hashPassword(password) };
}

/** The API key in the greeting. */
const demoKey = {
  name: 'Demo key',
  description: 'Printed at the start of the server',
  environment: 'test',
  scopes: ['*'],
  rate_limit_per_minute: 600,
  rate_limit_per_hour: 20_000,
} as const;

interface ExampleFile {
  size_bytes: number;
  sha256: string;
}

/** Stores the files of the example attachment and import. A repeated start overwrites it in the same place. */
async function storeExample(storage: FileStorage, dataDir: string): Promise<ExampleFile> {
  const store = async (id: string, content: string): Promise<ExampleFile> => {
    const path = join(dataDir, `example-${randomBytes(4).toString('hex')}`);
    mkdirSync(dataDir, { recursive: true });
    writeFileSync(path, content);
    const digest = sha256(content).toString('hex');
    await storage.keep(buildStorageKey({ companyId, testMode: true, id }), path, digest);
    return { size_bytes: content.length, sha256: digest };
  };
  await store(exampleIds.importErrors, demoErrorFile);
  return store(exampleIds.attachment, buildExampleFile());
}

async function makeWorkspace(sql: Sql, passwordHash: string, file: ExampleFile, now: Date): Promise<void> {
  const data = buildDemoData(demoSeed, now);
  const defaults = {
    pipelineName,
    dealStatuses,
    leadStatuses,
    activityTypes,
    taskTypes,
    // The demo workspace has its own sources.
    sources: [],
    trial: { packageCode: 'enterprise', endsAt: now },
    policy: buildStandardPolicy(demoCompany.timezone),
  };
  await enterTestMode(sql, companyId);
  const company = await createCompany(
    sql,
    { id: companyId, ...demoCompany },
    { id: data.adminId, ...admin, passwordHash, mustChangePassword: false, metadata: {} },
    defaults,
    data.founded,
  );
  if (!company)
    throw new Error(
      `The demo workspace cannot be created because ${admin.email} belongs to another workspace. Start with DEMO=0.`,
    );
  await enterTestMode(sql, companyId);
  await insertConfiguration(
    sql,
    { id: companyId, branchId: company.branchId, founded: data.founded },
    {
      branch: secondBranch,
      emptyBranch,
      team: exampleTeam,
      emptyTeam,
      users: data.users,
      sources,
      tags,
      customObject,
      customFields,
      statuses: [exampleStatus],
      pipeline: examplePipeline,
      linkTypes: exampleLinkTypes,
      activityTypes: [exampleActivityType],
      slaPolicies: [exampleSlaPolicy],
      views: exampleViews,
      savedReports: exampleSavedReports,
    },
  );
  const attachments = data.attachments.map((attachment) => ({ ...attachment, ...file, file_id: attachment.id }));
  const links = buildExampleLinks(data.customers, data.adminId, data.founded);
  const accounts = [...data.accounts, ...buildDeletedAccounts(data.accounts), ...buildAccountsOfMerges(data.accounts)];
  const exports = buildExampleExports(now, data.adminId);
  await insertRecords(sql, companyId, { ...data, accounts, attachments, links, exports });
  await deleteExamples(sql, companyId, [...exampleIds.deletedAccounts, ...exampleIds.mergedAccounts], now);
  const merges = exampleIds.merges.flatMap((id, index) => {
    const [sourceId, targetId] = [exampleIds.mergedAccounts[index], exampleIds.mergeTargets[index]];
    return sourceId && targetId ? [{ id, sourceId, targetId }] : [];
  });
  await mergeExamples(sql, companyId, merges, now);
  await insertDemoBilling(sql, companyId, buildDemoBilling(now));
  await insertMeetings(sql, companyId, buildDemoMeetings(demoSeed, data, now), now);
  await insertMessaging(sql, companyId, buildDemoMessaging(demoSeed, data, now), now);
  await insertWorkforces(sql, companyId, buildDemoWorkforces(demoSeed, data, now));
  await insertImports(sql, companyId, buildDemoImports(now));
  await insertChangeSets(sql, companyId, buildDemoChangeSets(now, addDays(now, 3650)));
  await insertReverts(sql, companyId, buildDemoReverts(now, addDays(now, 3650)));
  for (const key of exampleKeys) await insertDemoKey(sql, companyId, newApiKey('live'), key, data.founded);
  await saveGrant(sql, companyId, {
    id: exampleIds.oauthGrant,
    userId: data.adminId,
    clientId: '8QAd0vXkzPpjYfYw1n8eV',
    clientName: 'Assistant',
    audience: 'api',
    groups: ['records', 'automation'],
    extraScopes: [],
    writeMode: 'direct',
    createdAt: data.founded,
  });
}

async function makeWebhook(sql: Sql, secrets: Secrets, now: Date): Promise<void> {
  const scope = { companyId, testMode: true };
  const secret = newSigningSecret();
  const sealed = { sealedSecret: secrets.encrypt(secret), secretLast4: secret.slice(-4) };
  const createdBy = { kind: 'system', id: 'system', name: 'Demo' } as const;
  const example = eventCatalogue.find(({ name }) => name === 'record.created')?.example ?? {};
  await enterTestMode(sql, companyId);
  await insertWebhook(sql, scope, { ...exampleWebhook, ...sealed, createdBy }, now);
  await insertDeliveries(sql, scope, [buildExampleDelivery(example, now)]);
}

function readKept(file: string): Kept | undefined {
  try {
    const kept = JSON.parse(readFileSync(file, 'utf8')) as Partial<Kept>;
    const { key, password, password_hash } = kept;
    return key && password && password_hash ? { key, password, password_hash } : undefined;
  } catch {
    // Missing or corrupt: treated as lost.
    return undefined;
  }
}

function keep(file: string, kept: Kept): void {
  // Written to a new file and renamed, so that a partial file is never read.
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(kept, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** Returns the greeting for the terminal after the server started. */
export function buildGreeting(baseUrl: string, authUrl: string, demo: Demo | undefined): string {
  const lines = [
    `Headless CRM is ready at ${baseUrl}`,
    '',
    `Docs:      ${baseUrl}/docs`,
    `Console:   ${baseUrl}/console`,
  ];
  if (demo) {
    lines.push(
      `Demo key:  ${demo.key}  (test mode, with ${leadCount} sample leads)`,
      `Sign in:   ${admin.email} / ${demo.password ?? '(the password that you set)'}`,
      `           at ${authUrl}/token?grant_type=password, to create your own keys with POST /v1/api-keys`,
      `Try:       curl -s '${baseUrl}/v1/objects/leads/records?limit=3' -H 'x-api-key: ${demo.key}'`,
    );
  } else {
    const signup = {
      company: { name: 'My Company', email: 'office@example.com' },
      admin_user: { email: 'me@example.com', full_name: 'My Name' },
      region: 'europe',
      industry: 'Retail',
    };
    lines.push(
      `Onboard:   curl -s '${baseUrl}/v1/onboarding' -H 'content-type: application/json' -d '${JSON.stringify(signup)}'`,
    );
  }
  return `\n${lines.map((line) => `  ${line}`.trimEnd()).join('\n')}\n\n`;
}
