// What the job of imports needs: callers, the quota, the file storage and the rows of changes.
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { v7 as uuidv7 } from 'uuid';
import { findCompany, findGrants, findKeyById } from '../db/access/credentials.ts';
import { chargeCalls } from '../db/billing/quota.ts';
import { inTransaction } from '../db/client/in-transaction.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { type ImportRow, noteChargedRows } from '../db/records/imports.ts';
import { announceFile } from '../db/records/stored-files.ts';
import { type Grants, parseGrants } from '../domain/access/scopes.ts';
import { callsPerMonth, extraCalls, moduleState } from '../domain/billing/plans.ts';
import { storageKey } from '../domain/records/file-names.ts';
import type { LoadShedder } from '../jobs/load-shedder.ts';
import type { ImportFailure, ImportServices } from '../jobs/records/imports.ts';
import type { Caller, Reach } from '../runtime/caller.ts';
import { ApiError } from '../runtime/errors.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import { parseJson } from '../runtime/http/body.ts';
import { toAuditRow, toEventRows } from '../runtime/pipeline/change-rows.ts';
import { toGrant, toPermits, withSubscription } from './credentials.ts';
import { transactionTimeout } from './pools.ts';

interface ImportParts {
  platform: Pool;
  /** Connections of tenants. */
  tenants: Pool;
  storage: FileStorage;
  /** Temporary folder of uploads. */
  folder: string;
  loadShedder: LoadShedder;
  onEvents: () => void;
}

export function openImports({
  platform,
  tenants,
  storage,
  folder,
  loadShedder,
  onEvents,
}: ImportParts): ImportServices {
  return {
    loadShedder,
    onEvents,
    read: (key, start) => storage.read(key, start),
    readLine(text) {
      try {
        const { value, problems } = parseJson(Buffer.from(text), false);
        const [problem] = problems;
        return problem ? { flaw: problem.message } : { value: value as Record<string, unknown> };
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const isMalformed = error.details?.reason === 'malformed_json';
        return { flaw: isMalformed ? 'The line is not a JSON object.' : error.message };
      }
    },
    findCaller: (scope, row) => findCaller(platform, scope, row, new Date()),
    charge: (scope, id, rows) =>
      inTransaction(platform, 'platform', transactionTimeout, async (sql) => {
        const before = await noteChargedRows(sql, scope, id, rows);
        const calls = before ? Math.ceil(rows / 100) - Math.ceil(before.from / 100) : 0;
        if (calls === 0) return true;
        const catalogue = { callsPerMonth, extraCalls };
        const charged = await chargeCalls(sql, scope.companyId, id, calls, 0, catalogue, new Date());
        return charged?.charged === calls;
      }),
    toRows(change, caller, now) {
      const context = { caller, now, idempotencyKeyHash: null };
      return { audit: toAuditRow(change, context, new Date()), events: toEventRows(change, context) };
    },
    async store({ companyId, testMode }, content) {
      const place = { companyId, testMode, id: uuidv7() };
      const path = join(folder, randomUUID());
      const hash = createHash('sha256');
      let bytes = 0;
      async function* measured(): AsyncIterable<Buffer> {
        for await (const text of content) {
          const chunk = Buffer.from(text);
          bytes += chunk.length;
          hash.update(chunk);
          yield chunk;
        }
      }
      await pipeline(Readable.from(measured()), createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }));
      await inTransaction(tenants, place, transactionTimeout, (sql) => announceFile(sql, place, new Date()));
      await storage.keep(storageKey(place), path, hash.digest('hex'));
      return { id: place.id, bytes };
    },
  };
}

const scopesOf = { create: ['create'], update: ['edit'], upsert: ['create', 'edit'] } as const;

/** The rights that a credential has now. */
interface Rights {
  grants: Pick<Grants, 'allows'>;
  reach: Reach;
  companyName: string;
  access: string;
  modules: Caller['modules'];
}

/** Returns the caller that an import writes as, with the visibility that it was created with. */
async function findCaller(
  platform: Pool,
  { companyId, testMode }: TenantScope,
  row: ImportRow,
  now: Date,
): Promise<{ caller: Caller } | { failure: ImportFailure }> {
  const { object, options, reachKind, reachId } = row;
  const scopes = scopesOf[options.mode].map((action) => `${object}:${action}`);
  const reach: Reach =
    reachKind === 'company' || reachId === null ? { kind: 'company' } : { kind: reachKind, id: reachId };
  const found = await findRights(platform, companyId, row, scopes, now);
  if ('failure' in found) return found;
  const { grants, access, modules, companyName } = found;
  const fail = (code: string, message: string) => ({ failure: { code, message } });
  if (access !== 'open') return fail(access.toUpperCase(), 'The subscription of the workspace has ended.');
  for (const module of ['imports', object])
    if (moduleState(module, modules) !== 'on') return fail('MODULE_DISABLED', `The module ${module} is off.`);
  const missing = [...scopes, 'imports:create'].find((scope) => !grants.allows(scope));
  if (missing !== undefined)
    return fail('FORBIDDEN_SCOPE', `The credential that created the import no longer has the scope ${missing}.`);
  const isAsWide = found.reach.kind === 'company' || JSON.stringify(found.reach) === JSON.stringify(reach);
  if (!isAsWide)
    return fail('FORBIDDEN_SCOPE', 'The credential that created the import now sees fewer records than then.');
  const kind = row.createdByKind === 'user' ? 'person' : row.createdByKind;
  const caller: Caller = {
    kind,
    companyId,
    companyName,
    testMode,
    actor: { kind: row.createdByKind, id: row.createdById, name: row.createdByName },
    grants,
    scopes,
    reach,
    modules,
    expiresAt: null,
    userId: row.createdByUser,
    sessionId: null,
    mustChangePassword: false,
    limits: { perMinute: 0, perHour: 0, tenantPerMinute: 0, tenantPerDay: null },
    ip: '',
    userAgent: null,
    // All changes of an import have its id as their request.
    requestId: row.id,
  };
  return { caller };
}

async function findRights(
  platform: Pool,
  companyId: string,
  row: ImportRow,
  scopes: readonly string[],
  now: Date,
): Promise<Rights | { failure: ImportFailure }> {
  const fail = (code: string, message: string) => ({ failure: { code, message } });
  if (row.createdByKind === 'api_key') {
    const found = await platform.use((sql) => findKeyById(sql, companyId, row.createdById));
    if (!found || found.revokedAt) return fail('API_KEY_REVOKED', 'The API key that created the import was revoked.');
    if (found.expiresAt && found.expiresAt <= now)
      return fail('API_KEY_EXPIRED', 'The API key that created the import has expired.');
    const { reachKind, reachId, companyName } = found;
    const reach: Reach =
      reachKind === 'company' || reachId === null ? { kind: 'company' } : { kind: reachKind, id: reachId };
    return { grants: parseGrants(found.scopes), reach, companyName, ...withSubscription(found, now).subscription };
  }
  if (row.createdByUser !== null) {
    const clientId = row.createdByKind === 'oauth_client' ? row.createdById.replace(/^oauth_/, '') : '';
    const asked = [{ userId: row.createdByUser, clientId, audience: 'api' as const }];
    const [found] = await platform.use((sql) => findGrants(sql, companyId, asked));
    if (!found) return fail('FORBIDDEN_SCOPE', 'The user who created the import is inactive.');
    const { subscription } = withSubscription(found, now);
    const rest = { companyName: found.companyName, ...subscription };
    if (row.createdByKind === 'user') {
      const { allows, reachOf } = toPermits(found);
      return { grants: { allows }, reach: reachOf(scopes), ...rest };
    }
    const grant = toGrant(found);
    if (!grant || grant.revoked)
      return fail('FORBIDDEN_SCOPE', 'The user has revoked the access of the app that created the import.');
    const permitted = grant.permits([...scopes, 'imports:create']);
    return { grants: parseGrants(permitted.scopes), reach: permitted.reachOf(scopes), ...rest };
  }
  const company = await platform.use((sql) => findCompany(sql, companyId));
  if (!company) return fail('FORBIDDEN_SCOPE', 'The workspace is not active.');
  return {
    grants: { allows: () => true },
    reach: { kind: 'company' },
    companyName: company.companyName,
    ...withSubscription(company, now).subscription,
  };
}
