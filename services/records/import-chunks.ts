// Writes a chunk of an import's rows, with the code that batches of requests use.
import type { ImportErrorRow, ImportRow } from '../../db/records/imports.ts';
import { toUuid } from '../../domain/objects/field-values.ts';
import type { FileLayout } from '../../domain/records/import-layout.ts';
import {
  buildBodyFromCells,
  buildBodyFromObject,
  ColumnMapping,
  type RowBody,
} from '../../domain/records/import-mapping.ts';
import type { FileRow } from '../../domain/records/import-rows.ts';
import type { components } from '../../generated/api.ts';
import { type BatchResult, createBatch, upsertBatch } from './batch-writes.ts';
import type { RecordTarget, WriteCall } from './record-target.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** Reads an NDJSON line within the limits of bodies. */
export type ReadLine = (text: string) => { value: Record<string, unknown> } | { flaw: string };

/** The outcome of a chunk. */
export interface ChunkResult {
  created: number;
  updated: number;
  unchanged: number;
  errors: ImportErrorRow[];
}

/** A row that can be written. */
interface Readable {
  source: FileRow;
  content: unknown;
  body: Record<string, unknown>;
}

/** Writes rows; each succeeds or fails on its own. */
export async function writeImportChunk(
  call: WriteCall,
  place: RecordTarget,
  { options, layout }: Pick<ImportRow, 'options'> & { layout: FileLayout },
  rows: readonly FileRow[],
  readLine: ReadLine,
): Promise<ChunkResult> {
  const result: ChunkResult = { created: 0, updated: 0, unchanged: 0, errors: [] };
  const mapping = new ColumnMapping(place.object, options);
  const readable: Readable[] = [];
  for (const source of rows) {
    const { content, read } = readRow(source, place, mapping, options, layout, readLine);
    if ('body' in read) readable.push({ source, content, body: read.body });
    else result.errors.push(toError(source, content, read.message, read.problems));
  }
  const duplicates = options.checkDuplicates ? 'stored' : 'none';
  // Rows that repeat an earlier one of the chunk are written after it, so that their outcome does
  // not depend on where chunks end.
  let waiting = readable;
  while (waiting.length > 0) {
    const items = waiting.map(({ body }) => body);
    const written: BatchResult =
      options.mode === 'create'
        ? await createBatch(call, place, items, false, duplicates)
        : await upsertBatch(call, place, items, options.matchOn, false, {
            creates: options.mode === 'upsert',
            duplicates,
          });
    for (const { outcome } of written.succeeded) result[outcome] += 1;
    const repeated = new Set(written.failed.filter(isRepeat).map(({ index }) => index));
    const isStuck = written.succeeded.length === 0 && repeated.size === waiting.length;
    for (const failure of written.failed) {
      const row = waiting[failure.index];
      if (row && (isStuck || !isRepeat(failure))) result.errors.push(failureToError(row, failure));
    }
    waiting = isStuck ? [] : waiting.filter((_, index) => repeated.has(index));
  }
  return result;
}

const isRepeat = ({ code }: Failure): boolean => code === 'DUPLICATE_IN_BATCH';

function readRow(
  source: FileRow,
  { object }: RecordTarget,
  mapping: ColumnMapping,
  options: ImportRow['options'],
  { columns, fields }: FileLayout,
  readLine: ReadLine,
): { content: unknown; read: RowBody } {
  const { cells, text, flaw } = source;
  if (flaw !== undefined) return { content: text ?? '', read: { message: flaw, problems: [] } };
  if (cells) return { content: cells, read: buildBodyFromCells(cells, columns, fields, object, options) };
  const line = readLine(text ?? '');
  if ('flaw' in line) return { content: text ?? '', read: { message: line.flaw, problems: [] } };
  return { content: line.value, read: buildBodyFromObject(line.value, mapping, options) };
}

function toError(
  { place: { row, line } }: FileRow,
  content: unknown,
  message: string,
  fields: readonly object[],
  code = 'VALIDATION_ERROR',
): ImportErrorRow {
  // PostgreSQL cannot store NUL in JSON.
  return { row, line, code, message, fields: [...fields], content: withoutNul(content) };
}

function failureToError({ source, content }: Readable, failure: Failure): ImportErrorRow {
  const { code, message } = failure;
  const details = failure.details as
    | { fields?: object[]; matched_fields?: string[]; existing_id?: string | null }
    | undefined;
  const matched = (details?.matched_fields ?? []).map((field) => ({
    field,
    code: 'DUPLICATE',
    message,
    ...(toUuid(details?.existing_id ?? '') ? { hint: `The record ${details?.existing_id} has this value.` } : {}),
  }));
  const given = isRepeat(failure) ? 'ALREADY_EXISTS' : code;
  return toError(source, content, message, details?.fields ?? matched, given);
}

function withoutNul(content: unknown): unknown {
  if (typeof content === 'string') return content.replaceAll('\0', '\ufffd');
  if (Array.isArray(content)) return content.map(withoutNul);
  return content;
}
