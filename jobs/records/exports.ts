// Writes exports: each reads one snapshot and streams it into a file, which is then stored.
import { createHash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { v7 as uuidv7 } from 'uuid';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { toActor } from '../../db/client/created-by.ts';
import type { Pool, Sql } from '../../db/client/pool.ts';
import { inSnapshot } from '../../db/client/snapshot.ts';
import type { Scope } from '../../db/client/visibility.ts';
import { loadWorkspaceRows } from '../../db/objects/workspace.ts';
import {
  readAttachmentPage,
  readFeedPosition,
  readLinkPage,
  readNotePage,
  readRecordPage,
} from '../../db/records/export-reading.ts';
import {
  claimExport,
  completeExport,
  type DueExport,
  type ExportRow,
  expireExports,
  failExport,
  findDueExports,
  keepExport,
  releaseExport,
  toExporter,
} from '../../db/records/exports.ts';
import { announceFile } from '../../db/records/stored-files.ts';
import { type Filter, readFilter } from '../../domain/objects/filter.ts';
import { resolveRelativeDates } from '../../domain/objects/relative-dates.ts';
import { buildWorkspace, type Workspace } from '../../domain/objects/workspace.ts';
import { toAttachmentResponse } from '../../domain/records/attachments.ts';
import {
  createEncoder,
  type ExportEncoder,
  everythingColumns,
  type ExportRow as FileRow,
  listExportColumns,
} from '../../domain/records/export-format.ts';
import { type ExportError, everything } from '../../domain/records/exports.ts';
import { buildStorageKey } from '../../domain/records/file-names.ts';
import { toExportedLink } from '../../domain/records/links.ts';
import { toNoteResponse } from '../../domain/records/notes.ts';
import { chooseFields, findUnknownFieldProblems } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import { isAccessUnchanged } from '../../services/records/export-access.ts';
import type { LoadShedder } from '../load-shedder.ts';
import type { TenantJobContext } from '../runner.ts';

export interface ExporterServices {
  /** Snapshots, each for as long as its export takes. */
  snapshots: Pool;
  /** Moves a local file into the storage. */
  keepFile: (key: string, path: string, sha256: string) => Promise<void>;
  /** The folder of files in progress. */
  folder: string;
  loadShedder: LoadShedder;
}

/** Exports that a server runs at the same time, each with its own snapshot. */
export const exportsAtOnce = 2;
/** Milliseconds for which a snapshot may be held: the database cannot clean up meanwhile. */
const snapshotMs = 30 * 60_000;
/** Milliseconds between two signs of life. */
const keepIntervalMs = 3000;
/** Milliseconds for which the file of an export exists. */
const fileLifetimeMs = 24 * 3_600_000;
/** Starts of an export before it is given up. */
const mostAttempts = 5;
/** Seconds before a failed export is started again, times the starts so far. */
const retryAfterSeconds = 5;
/** Due exports that a run looks at. */
const glance = 200;
/** Rows of a page while requests wait. */
const smallPage = 100;

/** An export that cannot succeed. */
class ExportFailed extends Error {
  readonly code: ExportError;

  constructor(code: ExportError) {
    super(`the export failed: ${code}`);
    this.code = code;
  }
}

/** The exports of this process. Several servers share the work: each export is claimed by one. */
export class Exporter {
  readonly #services: ExporterServices;
  readonly #running = new Set<Promise<void>>();

  constructor(services: ExporterServices) {
    this.#services = services;
  }

  /** Expires files, and starts due exports while there is room. They outlast the run. */
  async run(context: TenantJobContext): Promise<void> {
    const { platform, transaction, now, signal, batchSize } = context;
    await platform.use((sql) => expireExports(sql, batchSize, now()));
    if (this.#running.size >= exportsAtOnce) return;
    for (const due of await platform.use((sql) => findDueExports(sql, glance))) {
      if (signal.aborted || this.#running.size >= exportsAtOnce) return;
      const row = await transaction(due, (sql) => claimExport(sql, due, now()));
      if (!row) continue;
      const running = performExport(context, this.#services, due, row).finally(() => {
        this.#running.delete(running);
        this.#startNext(context);
      });
      this.#running.add(running);
    }
  }

  /** Starts what has waited for an export to end. If that fails, the next run does. */
  #startNext(context: TenantJobContext): void {
    if (context.signal.aborted) return;
    this.run(context).catch(({ message }: Error) =>
      context.log.warn({ err: { message } }, 'failed to start the next export; will retry'),
    );
  }

  /** Resolves when no export is running. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }
}

/** Never rejects: what fails is started again, or noted. */
async function performExport(
  context: TenantJobContext,
  services: ExporterServices,
  due: DueExport,
  row: ExportRow,
): Promise<void> {
  const { transaction, log, now } = context;
  const attempt = { ...due, attempt: row.attempt };
  const scope = { companyId: due.companyId, testMode: due.testMode };
  const path = join(services.folder, `export-${row.id}-${row.attempt}`);
  const progress: Progress = { rows: 0, feedPosition: null };
  const ended = new AbortController();
  const keep = async (): Promise<void> => {
    try {
      if (!(await transaction(scope, (sql) => keepExport(sql, attempt, progress)))) ended.abort();
    } catch (error) {
      log.warn({ export: row.id, err: { message: (error as Error).message } }, 'failed to note progress; will retry');
    }
  };
  let keeping: Promise<void> | undefined;
  const timer = setInterval(() => {
    keeping ??= keep().finally(() => {
      keeping = undefined;
    });
  }, keepIntervalMs);
  const audited = (action: string, metadata: object) =>
    buildSystemAuditRow(scope, 'exports', action, { metadata: { export_id: row.id, ...metadata } }, now());
  try {
    const signal = AbortSignal.any([context.signal, ended.signal]);
    const file = await writeFile(context, services, scope, row, path, progress, keep, signal);
    const fileId = uuidv7();
    const place = { ...scope, id: fileId };
    await transaction(scope, (sql) => announceFile(sql, place, now()));
    await services.keepFile(buildStorageKey(place), path, file.sha256);
    const completedAt = now();
    const expiresAt = new Date(completedAt.getTime() + fileLifetimeMs);
    await transaction(scope, async (sql, _, audit) => {
      if (!(await completeExport(sql, attempt, { fileId, ...file }, completedAt, expiresAt)))
        throw new Error('the export was cancelled, or another server has it');
      audit(audited('export.complete', { rows: file.rows, bytes: file.bytes }));
    });
  } catch (error) {
    if (ended.signal.aborted) return;
    const { message } = error as Error;
    const isInterrupted = context.signal.aborted;
    const isLast = !(error instanceof ExportFailed) && !isInterrupted && row.attempt >= mostAttempts;
    const code = error instanceof ExportFailed ? error.code : isLast ? 'internal' : undefined;
    if (!isInterrupted) log.warn({ export: row.id, company: due.companyId, err: { message } }, 'an export failed');
    try {
      await transaction(scope, async (sql, _, audit) => {
        if (code === undefined) await releaseExport(sql, attempt, isInterrupted ? 0 : retryAfterSeconds * row.attempt);
        else if (await failExport(sql, attempt, code, now())) audit(audited('export.fail', { error: code }));
      });
    } catch (failure) {
      // It is due again when its lease is over.
      log.warn({ export: row.id, err: { message: (failure as Error).message } }, 'failed to note the end of an export');
    }
  } finally {
    clearInterval(timer);
    await keeping;
    await rm(path, { force: true });
  }
}

interface Progress {
  rows: number;
  feedPosition: number | null;
}

/** Writes the file. @throws ExportFailed */
async function writeFile(
  context: TenantJobContext,
  services: ExporterServices,
  scope: { companyId: string; testMode: boolean },
  row: ExportRow,
  path: string,
  progress: Progress,
  keep: () => Promise<void>,
  signal: AbortSignal,
): Promise<{ rows: number; bytes: number; sha256: string; feedPosition: number }> {
  const overdueAt = performance.now() + snapshotMs;
  const file = await ExportFile.create(path);
  try {
    const feedPosition = await inSnapshot(services.snapshots, scope, snapshotMs, async (sql) => {
      // The first statement takes the snapshot.
      const position = await readFeedPosition(sql, scope);
      progress.feedPosition = position;
      // Callers can already follow the feed from there.
      await keep();
      if (!(await isAccessUnchanged(sql, scope.companyId, row))) throw new ExportFailed('access_ended');
      const workspace = buildWorkspace(await loadWorkspaceRows(sql, scope.companyId));
      const turn = async (): Promise<number> => {
        const isLoaded = await services.loadShedder.waitForTurn(signal);
        signal.throwIfAborted();
        if (performance.now() > overdueAt) throw new ExportFailed('too_long');
        return isLoaded ? Math.min(smallPage, context.batchSize) : context.batchSize;
      };
      const { encoder, pages } = prepare(sql, scope, row, workspace, context.now(), turn);
      await file.write(encoder.begin());
      for await (const rows of pages) {
        await file.write(encoder.add(rows));
        progress.rows += rows.length;
      }
      await file.write(encoder.end());
      return position;
    }).catch((error: unknown) => {
      throw performance.now() > overdueAt ? new ExportFailed('too_long') : error;
    });
    return { rows: progress.rows, feedPosition, ...file.digest() };
  } finally {
    await file.close();
  }
}

type Turn = () => Promise<number>;
type Pages = AsyncGenerator<FileRow[]>;

/** @throws ExportFailed if the workspace no longer has what the export names */
function prepare(
  sql: Sql,
  scope: { companyId: string; testMode: boolean },
  row: ExportRow,
  workspace: Workspace,
  now: Date,
  turn: Turn,
): { encoder: ExportEncoder; pages: Pages } {
  const createRowEncoder = (columns: typeof everythingColumns) =>
    createEncoder(row.format, columns, row.spreadsheetSafe);
  if (row.object === everything)
    return { encoder: createRowEncoder(everythingColumns), pages: readEverything(sql, scope, row, workspace, turn) };
  const object = workspace.objects.get(row.object);
  const [source] = row.sources;
  if (!object || !source) throw new ExportFailed('access_ended');
  const visible = new Set(row.sources.map(({ object: name }) => name));
  const context = { workspace, canView: (name: string) => visible.has(name) };
  const given = row.filter ? readFilter(row.filter, object, context) : { filter: undefined, problems: [] };
  if (given.problems.length > 0 || findUnknownFieldProblems(row.fields ?? [], object).length > 0)
    throw new ExportFailed('filter_invalid');
  const filter = given.filter && resolveRelativeDates(given.filter, { now, timezone: workspace.timezone });
  const fields = row.fields ? new Set(row.fields) : undefined;
  const exporter = toExporter(scope, row, source.reach);
  const records = readRecords(sql, exporter, row.object, filter, turn, (record) => {
    const shown = showRecord(object, record);
    return fields ? chooseFields(shown, fields) : shown;
  });
  return { encoder: createRowEncoder(listExportColumns(object, fields)), pages: records };
}

function readRecords(
  sql: Sql,
  exporter: Scope,
  object: string,
  filter: Filter | undefined,
  turn: Turn,
  show: (record: Awaited<ReturnType<typeof readRecordPage>>[number]) => FileRow,
): Pages {
  return readPages(turn, (after, limit) => readRecordPage(sql, exporter, object, filter, after, limit), show);
}

/** Records of every object, then their notes, links and attachments. */
async function* readEverything(
  sql: Sql,
  scope: { companyId: string; testMode: boolean },
  row: ExportRow,
  workspace: Workspace,
  turn: Turn,
): Pages {
  const toRow = (object: string, record: object): FileRow => ({ object, record });
  const sources = row.sources.flatMap(({ object: name, reach }) => {
    const object = workspace.objects.get(name);
    return object ? [{ name, object, exporter: toExporter(scope, row, reach) }] : [];
  });
  for (const { name, object, exporter } of sources)
    yield* readRecords(sql, exporter, name, undefined, turn, (record) => toRow(name, showRecord(object, record)));
  for (const { name, exporter } of sources)
    yield* readPages(
      turn,
      (after, limit) => readNotePage(sql, exporter, name, after, limit),
      (note) => toRow('notes', toNoteResponse(note, toActor(note))),
    );
  for (const type of workspace.linkTypes) {
    const [from, to] = [type.fromObject, type.toObject].map((side) => sources.find(({ name }) => name === side));
    if (!from || !to) continue;
    yield* readPages(
      turn,
      (after, limit) => readLinkPage(sql, type, from.exporter, to.exporter, after, limit),
      (link) => toRow('links', toExportedLink({ ...link, linkType: type.name, createdBy: toActor(link) })),
    );
  }
  if (!row.modules.includes('attachments')) return;
  for (const { name, exporter } of sources)
    yield* readPages(
      turn,
      (after, limit) => readAttachmentPage(sql, exporter, name, after, limit),
      (attachment) => toRow('attachments', toAttachmentResponse(attachment, toActor(attachment), scope.testMode)),
    );
}

/** Reads page after page by id. The next page is on its way while one is encoded. */
async function* readPages<Row extends { id: string }>(
  turn: Turn,
  read: (after: string | undefined, limit: number) => Promise<Row[]>,
  show: (row: Row) => FileRow,
): Pages {
  let limit = await turn();
  let next: Promise<Row[]> | undefined = read(undefined, limit);
  while (next) {
    const rows: Row[] = await next;
    next = undefined;
    const last = rows.at(-1);
    if (last && rows.length === limit) {
      limit = await turn();
      next = read(last.id, limit);
      // If writing the previous page fails, no caller awaits this promise.
      next.catch(() => undefined);
    }
    if (rows.length > 0) yield rows.map(show);
  }
}

/** A file in progress, with its size and hash. */
class ExportFile {
  readonly #handle: FileHandle;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  static async create(path: string): Promise<ExportFile> {
    return new ExportFile(await open(path, 'w', 0o600));
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    await this.#handle.writeFile(bytes);
  }

  digest(): { bytes: number; sha256: string } {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}
