// What the job of imports needs: callers, the quota, the file storage and the rows of changes.
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { v7 as uuidv7 } from 'uuid';
import { chargeCalls } from '../db/billing/quota.ts';
import { inTransaction } from '../db/client/in-transaction.ts';
import type { Pool } from '../db/client/pool.ts';
import type { TenantScope } from '../db/client/tenant.ts';
import { type ImportRow, noteChargedRows } from '../db/records/imports.ts';
import { announceFile } from '../db/records/stored-files.ts';
import { callsPerMonth, extraCalls } from '../domain/billing/plans.ts';
import { buildStorageKey } from '../domain/records/file-names.ts';
import type { LoadShedder } from '../jobs/load-shedder.ts';
import type { ImportServices } from '../jobs/records/imports.ts';
import { ApiError } from '../runtime/errors.ts';
import type { FileStorage } from '../runtime/files/storage.ts';
import { parseJson } from '../runtime/http/body.ts';
import { toAuditRow, toEventRows } from '../runtime/pipeline/change-rows.ts';
import { findJobCaller } from './job-callers.ts';
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
        const { value, problems } = parseJson(Buffer.from(text), { arrayBody: false });
        const [problem] = problems;
        return problem ? { flaw: problem.message } : { value: value as Record<string, unknown> };
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const isMalformed = error.details?.reason === 'malformed_json';
        return { flaw: isMalformed ? 'The line is not a JSON object.' : error.message };
      }
    },
    findCaller: (scope, row) => findImportCaller(platform, scope, row),
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
      await storage.keep(buildStorageKey(place), path, hash.digest('hex'));
      return { id: place.id, bytes };
    },
  };
}

const scopesOf = { create: ['create'], update: ['edit'], upsert: ['create', 'edit'] } as const;

/** Returns the caller that an import writes as, with the visibility that it was created with. */
function findImportCaller(
  platform: Pool,
  scope: TenantScope,
  row: ImportRow,
): ReturnType<ImportServices['findCaller']> {
  const scopes = scopesOf[row.options.mode].map((action) => `${row.object}:${action}`);
  const work = {
    id: row.id,
    name: 'import',
    modules: ['imports', row.object],
    scopes,
    needed: [...scopes, 'imports:create'],
    isWrite: true,
  };
  return findJobCaller(platform, scope, row, work, new Date());
}
