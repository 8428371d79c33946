// Runs imports: reads the rows of their files, and writes them in chunks.
//
// The position of an import advances in the transaction of its chunk. If a server stops at any
// point, another one goes on at that position after the lease ends.
import type { AuditRow, EventRow } from '../../db/client/change-log.ts';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import type { Sql } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findClockAhead, readTenantTime } from '../../db/client/test-clocks.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import * as imports from '../../db/records/imports.ts';
import { insertNotifications } from '../../db/records/notifications.ts';
import { buildWorkspace } from '../../domain/objects/workspace.ts';
import { buildStorageKey } from '../../domain/records/file-names.ts';
import { buildErrorHeader, buildErrorLine, listFurtherColumns } from '../../domain/records/import-errors.ts';
import type { FileLayout } from '../../domain/records/import-layout.ts';
import { type FileRow, type RowPlace, RowReader } from '../../domain/records/import-rows.ts';
import { importLimits } from '../../domain/service/request-limits.ts';
import { addOrigin } from '../../services/records/change-origin.ts';
import { type ReadLine, writeImportChunk } from '../../services/records/import-chunks.ts';
import type { WriteCall } from '../../services/records/record-target.ts';
import type { LoadShedder } from '../load-shedder.ts';
import type { TenantJobContext } from '../runner.ts';
import { leaseMs, mostAttempts, retryMs, waitMs } from './chunk-timing.ts';

type Caller = WriteCall['caller'];
type Change = Parameters<WriteCall['db']['record']>[0];

/** Why an import cannot go on. */
interface ImportFailure {
  code: string;
  message: string;
}

export interface ImportServices {
  loadShedder: LoadShedder;
  /** Opens a stored file from a byte on. */
  read(key: string, start: number): Promise<AsyncIterable<Uint8Array> | undefined>;
  readLine: ReadLine;
  /** Returns the caller that an import writes as, or why its credential no longer allows it. */
  findCaller(scope: TenantScope, row: imports.ImportRow): Promise<{ caller: Caller } | { failure: ImportFailure }>;
  /**
   * Charges the rows up to a number to the quota of the workspace, unless they are charged already.
   * @returns false if it has no calls left
   */
  charge(scope: TenantScope, id: string, rows: number): Promise<boolean>;
  toRows(change: Change, caller: Caller, now: Date): { audit: AuditRow; events: EventRow[] };
  /** Writes a text into the storage as a file. */
  store(scope: TenantScope, content: AsyncIterable<string>): Promise<{ id: string; bytes: number }>;
  onEvents(): void;
}

/** Imports that a server runs at the same time. */
const importsAtOnce = 2;
/** Bytes of rows in a chunk, and rows of it under load. */
const chunkBytes = 2_000_000;
const smallChunk = 100;
/**
 * Written rows after which the statistics of the tables are refreshed. Autovacuum does so only after a
 * minute, and until then PostgreSQL plans as if the rows of the import were not there: with a
 * thousand rows, a wrong plan can take seconds. Fewer cost too little to analyze for.
 */
const largeImport = 1000;
/** Failed rows of one read for their file. */
const errorsPage = 1000;

/** @returns the number of imports that were looked at */
export async function runImports(context: TenantJobContext, services: ImportServices): Promise<number> {
  const { platform, batchSize, now, signal } = context;
  const due = await platform.use((sql) => imports.findDueImports(sql, now(), batchSize));
  const waiting = [...due];
  const serve = async (): Promise<void> => {
    for (let next = waiting.shift(); next && !signal.aborted; next = waiting.shift())
      await runOne(context, services, next);
  };
  await Promise.all(Array.from({ length: importsAtOnce }, serve));
  return due.length;
}

async function runOne(
  context: TenantJobContext,
  services: ImportServices,
  { companyId, testMode, id }: TenantScope & { id: string },
): Promise<void> {
  const scope = { companyId, testMode };
  try {
    const now = context.now();
    const lease = { now, until: new Date(now.getTime() + leaseMs), retryAt: new Date(now.getTime() + waitMs) };
    const row = await context.transaction(scope, (sql) =>
      imports.takeImport(sql, scope, id, lease, importLimits.running),
    );
    if (row) await new ImportRun(context, services, scope, row).run();
  } catch (error) {
    const err = { message: (error as Error).message };
    context.log.warn({ company: companyId, import: id, err }, 'failed to continue an import; will retry');
    await context.transaction(scope, (sql) => noteFailure(sql, scope, id, context.now()));
  }
}

/** Has a chunk that failed tried again, later each time. */
async function noteFailure(sql: Sql, scope: TenantScope, id: string, now: Date): Promise<void> {
  const row = await imports.lockImport(sql, scope, id);
  if (row?.status !== 'running') return;
  const attempts = row.attempts + 1;
  await imports.updateImport(sql, scope, id, { attempts, dueAt: new Date(now.getTime() + retryMs * attempts) });
}

/** What a chunk did: `gone` if the import was cancelled or another server has it. */
type ChunkOutcome = 'written' | 'gone' | 'ended';

/** One server's run of an import, until its end or the server's. */
class ImportRun {
  readonly #context: TenantJobContext;
  readonly #services: ImportServices;
  readonly #scope: TenantScope;
  #row: imports.ImportRow;

  constructor(context: TenantJobContext, services: ImportServices, scope: TenantScope, row: imports.ImportRow) {
    this.#context = context;
    this.#services = services;
    this.#scope = scope;
    this.#row = row;
  }

  async run(): Promise<void> {
    const { signal } = this.#context;
    const { layout } = this.#row;
    if (!layout) throw new Error('an import that runs was started');
    if (this.#row.completedAt) return this.#endCancelled();
    if (this.#row.attempts >= mostAttempts)
      return this.#end('failed', { code: 'INTERNAL_ERROR', message: 'A chunk of rows could not be written.' });
    const source = new RowSource(this.#readFile(layout, this.#row.nextByte), layout, imports.toRowPlace(this.#row));
    try {
      while (!signal.aborted) {
        const isUnderLoad = await this.#services.loadShedder.waitForTurn(signal);
        // After a failure in smaller chunks, so that one row cannot hold up the others.
        const most = Math.ceil((isUnderLoad ? smallChunk : importLimits.chunkRows) / 4 ** this.#row.attempts);
        const rows = await source.take(most);
        const next = source.place;
        if (rows.length === 0) return await this.#end('completed');
        const prepared = await this.#prepare(next);
        if ('failure' in prepared) return await this.#end('failed', prepared.failure);
        const outcome = await this.#write(rows, next, layout, prepared.caller);
        if (outcome !== 'written') return;
      }
    } finally {
      await source.close();
    }
    // Another server can continue immediately.
    await this.#within((sql) => imports.updateImport(sql, this.#scope, this.#row.id, { dueAt: this.#context.now() }));
  }

  #within<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    return this.#context.transaction(this.#scope, work);
  }

  /** Charges the rows up to a place, and finds the caller. */
  async #prepare(next: RowPlace): Promise<{ caller: Caller } | { failure: ImportFailure }> {
    const found = await this.#services.findCaller(this.#scope, this.#row);
    if ('failure' in found) return found;
    // In a transaction of its own, so that the counter is not locked while the chunk is written.
    const isPaid = await this.#services.charge(this.#scope, this.#row.id, next.row - 1);
    if (isPaid) return found;
    return { failure: { code: 'QUOTA_EXCEEDED', message: 'The workspace has no API calls left in this period.' } };
  }

  async #write(rows: readonly FileRow[], next: RowPlace, layout: FileLayout, caller: Caller): Promise<ChunkOutcome> {
    const { id, options, dryRun } = this.#row;
    const scope = this.#scope;
    const before = imports.toRowPlace(this.#row);
    const outcome = await this.#context.transaction(scope, async (sql, emit, audit) => {
      const row = await imports.lockImport(sql, scope, id);
      if (row?.status !== 'running' || row.nextByte !== before.byte || row.nextRow !== before.row) return undefined;
      const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
      const object = workspace.objects.get(row.object);
      if (!object) return { failure: { code: 'NOT_FOUND', message: `The object ${row.object} is disabled.` } };
      const changes: Change[] = [];
      const sent: Promise<unknown>[] = [];
      // Records are written at the time of their tenant, although the job itself is on the real time.
      const clockAheadSeconds = await findClockAhead(sql, scope);
      const currentTime = (): Date => new Date(this.#context.now().getTime() + clockAheadSeconds * 1000);
      const now = currentTime();
      const writing: WriteCall = {
        caller,
        now,
        currentTime,
        db: {
          sql,
          record: (change) => changes.push(change),
          awaitAtCommit(result) {
            result.catch(() => undefined);
            sent.push(result);
          },
        },
      };
      if (dryRun) await sql`savepoint import_chunk`;
      const result = await writeImportChunk(
        writing,
        { workspace, object },
        { options, layout },
        rows,
        this.#services.readLine,
      );
      await Promise.all(sent);
      if (dryRun) await sql`rollback to savepoint import_chunk`;
      else
        for (const change of changes) {
          const made = this.#services.toRows(addOrigin(change, 'import', id), { ...caller, clockAheadSeconds }, now);
          audit(made.audit);
          for (const event of made.events) emit(event);
        }
      const failed = row.failed + result.errors.length;
      const isOver = options.maxErrors !== null && failed > options.maxErrors;
      await imports.insertImportErrors(sql, scope, id, result.errors);
      const counts = {
        created: row.created + result.created,
        updated: row.updated + result.updated,
        unchanged: row.unchanged + result.unchanged,
        failed,
      };
      const place = { nextByte: next.byte, nextRow: next.row, nextLine: next.line };
      const dueAt = new Date(this.#context.now().getTime() + leaseMs);
      await imports.updateImport(sql, scope, id, { ...counts, ...place, attempts: 0, dueAt });
      return { row: { ...row, ...counts, ...place, attempts: 0 }, isOver };
    });
    if (!outcome) return 'gone';
    if ('failure' in outcome) {
      await this.#end('failed', outcome.failure);
      return 'ended';
    }
    this.#row = outcome.row;
    this.#services.onEvents();
    if (!outcome.isOver) return 'written';
    await this.#end('failed', { code: 'VALIDATION_ERROR', message: `More than ${options.maxErrors} rows failed.` });
    return 'ended';
  }

  /** Ends the import, with the file of its failed rows. */
  async #end(status: 'completed' | 'failed', failure?: ImportFailure): Promise<void> {
    const scope = this.#scope;
    const { id } = this.#row;
    const errors = await this.#writeErrors();
    await this.#context.transaction(scope, async (sql, emit, audit) => {
      const row = await imports.lockImport(sql, scope, id);
      if (row?.status !== 'running' || row.nextByte !== this.#row.nextByte) return;
      const now = this.#context.now();
      const stored =
        errors && (await imports.keepFile(sql, scope, errors.id))
          ? { errorsFileId: errors.id, errorsBytes: errors.bytes }
          : {};
      const fileRows = status === 'completed' ? { fileRows: row.nextRow - 1 } : {};
      const expiresAt = new Date(now.getTime() + imports.importKeptMs);
      const change = { status, completedAt: now, dueAt: null, expiresAt, ...stored, ...fileRows };
      await imports.updateImport(sql, scope, id, change, failure ? { error: failure } : {});
      const metadata = {
        import_id: id,
        created: row.created,
        updated: row.updated,
        failed: row.failed,
        dry_run: row.dryRun,
        ...(failure ? { reason: failure.code } : {}),
      };
      audit(
        buildSystemAuditRow(
          scope,
          'imports',
          `import.${status === 'completed' ? 'complete' : 'fail'}`,
          { object: row.object, metadata },
          now,
        ),
      );
      const occurredAt = await readTenantTime(sql, scope);
      emit({
        ...scope,
        event: `import.${status}`,
        occurredAt,
        actor: { kind: 'system', id: 'imports', name: null },
        requestId: null,
        data: { object: row.object, ...metadata, occurred_at: occurredAt.toISOString() },
      });
      // Nothing in test mode notifies people, and keys have no user.
      const { createdByUser: userId } = row;
      if (userId === null || scope.testMode) return;
      const counts = `${row.created} created, ${row.updated} updated, ${row.failed} failed`;
      const what = row.dryRun ? 'dry run of an import' : 'import';
      const title = `The ${what} into ${row.object} ${status === 'completed' ? 'is complete' : 'failed'}: ${counts}.`;
      const notification = { userId, kind: 'import_finished', title, object: row.object, subjectId: id } as const;
      await insertNotifications(sql, scope.companyId, [notification], now);
    });
    this.#services.onEvents();
    await this.#refreshStatistics();
  }

  /** Refreshes the statistics of the tables that a large import filled. The import has ended, and does not depend on it. */
  async #refreshStatistics(): Promise<void> {
    const { object, dryRun, created, updated } = this.#row;
    const written = created + updated;
    if (dryRun || written < largeImport) return;
    try {
      await this.#within((sql) => imports.refreshStatistics(sql, object, written));
    } catch (error) {
      const { companyId: company } = this.#scope;
      const failure = { company, import: this.#row.id, err: { message: (error as Error).message } };
      this.#context.log.warn(failure, 'failed to refresh statistics after an import');
    }
  }

  /** Makes the file of failed rows of an import that was cancelled, and refreshes statistics. */
  async #endCancelled(): Promise<void> {
    const errors = await this.#writeErrors();
    await this.#context.transaction(this.#scope, async (sql) => {
      const stored =
        errors && (await imports.keepFile(sql, this.#scope, errors.id))
          ? { errorsFileId: errors.id, errorsBytes: errors.bytes }
          : {};
      await imports.updateImport(sql, this.#scope, this.#row.id, { ...stored, dueAt: null });
    });
    await this.#refreshStatistics();
  }

  async #writeErrors(): Promise<{ id: string; bytes: number } | undefined> {
    if (this.#row.failed === 0) return undefined;
    const { columns = [], delimiter } = this.#row.layout ?? {};
    const further = new Set<string>();
    for await (const error of this.#failedRows())
      for (const column of listFurtherColumns(error, columns)) further.add(column);
    const all = [...columns, ...further];
    const failedRows = (): AsyncIterable<imports.ImportErrorRow> => this.#failedRows();
    async function* lines(): AsyncIterable<string> {
      yield buildErrorHeader(all, delimiter);
      for await (const error of failedRows()) yield buildErrorLine(error, all, delimiter);
    }
    return this.#services.store(this.#scope, lines());
  }

  async *#failedRows(): AsyncIterable<imports.ImportErrorRow> {
    let after = 0;
    for (;;) {
      const page = await this.#within((sql) =>
        imports.listImportErrors(sql, this.#scope, this.#row.id, after, errorsPage),
      );
      yield* page;
      const last = page.at(-1);
      if (!last || page.length < errorsPage) return;
      after = last.row;
    }
  }

  /** The file from a byte of its text on, as UTF-8. */
  async *#readFile(layout: FileLayout, from: number): AsyncGenerator<Buffer> {
    const { encoding, markBytes } = layout;
    const parts = await this.#within((sql) => imports.findImportParts(sql, this.#scope, this.#row.id));
    // Only in UTF-8, a place in the text is a place in the file.
    let skipped = encoding === 'utf-8' ? markBytes + from : markBytes;
    const decoder = encoding === 'utf-8' ? undefined : new TextDecoder(encoding, { ignoreBOM: true });
    let toSkip = encoding === 'utf-8' ? 0 : from;
    for (const part of parts) {
      if (skipped >= part.bytes) {
        skipped -= part.bytes;
        continue;
      }
      const stream = await this.#services.read(buildStorageKey({ ...this.#scope, id: part.fileId }), skipped);
      if (!stream) throw new Error('a part of an import is not in the storage');
      skipped = 0;
      for await (const chunk of stream) {
        const bytes = Buffer.from(decoder ? decoder.decode(chunk, { stream: true }) : chunk);
        const start = Math.min(toSkip, bytes.length);
        toSkip -= start;
        if (start < bytes.length) yield bytes.subarray(start);
      }
    }
    const rest = decoder?.decode() ?? '';
    if (rest.length > 0) yield Buffer.from(rest).subarray(toSkip);
  }
}

/** Takes rows from the bytes of a file. */
class RowSource {
  readonly #bytes: AsyncGenerator<Buffer>;
  readonly #reader: RowReader;
  /** Where the next row begins. */
  place: RowPlace;
  #isRead = false;

  constructor(bytes: AsyncGenerator<Buffer>, { delimiter }: FileLayout, place: RowPlace) {
    this.#bytes = bytes;
    this.#reader = new RowReader(delimiter, place);
    this.place = place;
  }

  /** Returns up to so many rows, fewer if they are long; none at the end of the file. */
  async take(most: number): Promise<FileRow[]> {
    const rows: FileRow[] = [];
    const start = this.place.byte;
    while (rows.length < most && this.place.byte - start < chunkBytes) {
      const row = this.#reader.next();
      if (row) {
        rows.push(row);
        this.place = row.next;
      } else if (this.#isRead) break;
      else await this.#readOn();
    }
    return rows;
  }

  async #readOn(): Promise<void> {
    const { done, value } = await this.#bytes.next();
    if (done) {
      this.#isRead = true;
      this.#reader.end();
    } else this.#reader.push(value);
  }

  async close(): Promise<void> {
    await this.#bytes.return(undefined);
  }
}
