// Searches the request log, block by block.
import { type BlockFilter, findBlocks } from '../../db/access/requests.ts';
import type { RequestSummary } from '../../domain/access/logged-requests.ts';
import { readBlock, toHighestIdOfBlock, toTerm } from '../../domain/access/request-blocks.ts';
import { toHighestId, toLowestId } from '../../domain/access/request-ids.ts';
import { buildProblem, validationFailed } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** The blocks of the log that one statement scans for rare requests. */
const scanLimit = 2000;
/** The blocks that the first statements of a call read. One block can have all requests of a page. */
const blockLimits = [5, 20];
/** The blocks that each further statement reads. */
const maxBlocks = 40;
/** A call ends after so many statements, or requests that it has read. */
const maxScans = 10;
const maxRead = 50_000;

/** Filters of the list. Both ids are inclusive. */
export interface RequestFilter {
  terms: string[];
  /** True if only failed requests can match, which have an index. */
  failuresOnly: boolean;
  /** The beginning of the path. */
  path: string;
  lowestId: string;
  highestId: string;
}

type Query = Call<'listRequests'>['request']['query'];

/** @throws ApiError 400 if the window ends before it begins */
export function toRequestFilter(query: Query): RequestFilter {
  const { method, operation, status, error_code, api_key_id, actor_id, path = '', from, to } = query;
  if (from !== undefined && to !== undefined && new Date(from) > new Date(to))
    throw validationFailed([buildProblem('to', 'OUT_OF_RANGE', 'to must not be before from')], 400);
  const terms: string[] = [];
  if (method !== undefined) terms.push(toTerm.method(method));
  if (operation !== undefined) terms.push(toTerm.operation(operation));
  if (status !== undefined) terms.push(toTerm.status(status));
  if (error_code !== undefined) terms.push(toTerm.errorCode(error_code));
  if (api_key_id !== undefined) terms.push(toTerm.apiKey(api_key_id));
  if (actor_id !== undefined) terms.push(toTerm.actor(actor_id));
  return {
    terms,
    failuresOnly: error_code !== undefined || /^[45]/.test(status ?? ''),
    path,
    lowestId: from === undefined ? firstId : toLowestId(Date.parse(from)),
    highestId: to === undefined ? lastId : toHighestId(Date.parse(to)),
  };
}

const firstId = toLowestId(0);
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/**
 * Reads blocks until a page is full, the log ends, or the call has read enough.
 * @param start the last request of the previous page
 * @returns requests, the newest first, and the id from which the next page continues, exclusive
 */
export async function searchRequests(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  { path, ...filter }: RequestFilter,
  start: string | undefined,
  limit: number,
): Promise<{ requests: RequestSummary[]; reached: string | undefined }> {
  const isPlain = filter.terms.length === 0;
  const highestFirstId = start !== undefined && start < filter.highestId ? start : filter.highestId;
  const bounds: BlockFilter = { ...filter, highestFirstId, highestId: toHighestIdOfBlock(highestFirstId) };
  const isWanted = ({ id, path: own }: RequestSummary): boolean =>
    id >= filter.lowestId && id <= highestFirstId && id !== start && own.startsWith(path);
  const matching: RequestSummary[] = [];
  let before: string | undefined;
  let read = 0;
  for (let scan = 0; ; scan += 1) {
    const blockLimit = blockLimits[scan] ?? maxBlocks;
    const part = await findBlocks(sql, caller, bounds, before, blockLimit, isPlain ? blockLimit : scanLimit);
    for (const block of part.blocks) {
      const own = readBlock(block.requests, filter.terms);
      matching.push(...own.matching.filter(isWanted));
      read += own.count;
    }
    matching.sort((a, b) => (a.id < b.id ? 1 : -1));
    const { reached } = part;
    // Blocks overlap, so further blocks may have requests that are newer than the oldest ones here.
    const complete = reached === undefined ? matching : matching.filter(({ id }) => id >= reached);
    if (complete.length > limit) return { requests: complete.slice(0, limit), reached: complete[limit - 1]?.id };
    if (reached === undefined) return { requests: complete, reached };
    const isEnough = scan + 1 >= maxScans || read >= maxRead;
    if (isEnough && (start === undefined || reached < start)) return { requests: complete, reached };
    before = reached;
  }
}
