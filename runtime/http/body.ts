// Reads a JSON body: enforces limits on size, depth and keys, and finds values that cannot be
// stored.
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { bodyLimits, filterLimits } from '../../domain/service/request-limits.ts';
import { type ApiError, buildProblem, type FieldProblem, unreadable } from '../errors.ts';
import type { FilterMembers } from '../openapi/filter-members.ts';

/** Thrown if the client closed the connection before its body arrived. No response is sent. */
export class ClientGone extends Error {}

/** Errors of bodies that cannot be read to their end although the client is still connected. */
const faults = new WeakMap<IncomingMessage, ApiError>();
/** Event that a request emits, with an ApiError, if the rest of its body cannot be read. */
export const bodyBroken = 'body broken';

/** Marks a body as unreadable from here on. Its reader gets the error. */
export function breakBody(request: IncomingMessage, error: ApiError): void {
  faults.set(request, error);
  request.emit(bodyBroken, error);
}

/** Returns why the rest of a body cannot be read, or undefined if it can. */
export function findBodyFault(request: IncomingMessage): ApiError | undefined {
  return faults.get(request);
}

/**
 * Returns the bytes of a body.
 * @param invite asks a client that sent `Expect: 100-continue` to send the body
 * @param limit in bytes
 * @throws ApiError with reason body_too_large as soon as the size is known, or the error passed to
 * breakBody; ClientGone
 */
export function readBytes(
  request: IncomingMessage,
  invite: () => void,
  limit: number = bodyLimits.bytes,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (Number(request.headers['content-length'] ?? 0) > limit) reject(tooLarge(limit));
    else if (request.complete) take(request, limit, resolve, reject);
    // Most bodies arrive in one packet with the head and are complete one turn of the event loop
    // later. They take one read and no listeners.
    else setImmediate(() => (request.complete ? take : collect)(request, limit, resolve, reject, invite));
  });
}

type Resolve = (bytes: Buffer) => void;
type Reject = (error: Error) => void;

function take(request: IncomingMessage, limit: number, resolve: Resolve, reject: Reject): void {
  const bytes = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  if (bytes.length > limit) reject(tooLarge(limit));
  else resolve(bytes);
}

function collect(request: IncomingMessage, limit: number, resolve: Resolve, reject: Reject, invite: () => void): void {
  if (request.destroyed) {
    reject(new ClientGone());
    return;
  }
  const fault = findBodyFault(request);
  if (fault) {
    reject(fault);
    return;
  }
  invite();
  request.on(bodyBroken, reject);
  const chunks: Buffer[] = [];
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > limit) {
      request.removeAllListeners('data');
      reject(tooLarge(limit));
    } else chunks.push(chunk);
  });
  request.on('end', () => resolve(Buffer.concat(chunks)));
  request.on('error', () => reject(new ClientGone()));
  request.on('close', () => reject(new ClientGone()));
}

const tooLarge = (limit: number) => unreadable('body_too_large', `The body must be at most ${limit} bytes.`);

/**
 * Rejects every media type except JSON, and any content encoding.
 * @param others names further media types that the operation accepts, for the error
 */
export function checkMediaType(request: IncomingMessage, others = ''): void {
  const type = request.headers['content-type'];
  if (type === 'application/json' && request.headers['content-encoding'] === undefined) return;
  const [media = '', ...parameters] = (type ?? '').toLowerCase().split(';');
  const charset = parameters.map((part) => part.trim()).find((part) => part.startsWith('charset='));
  if (media.trim() !== 'application/json' || (charset && !/^charset="?utf-8"?$/.test(charset))) {
    throw unreadable('unsupported_media_type', `Send the body as Content-Type: application/json in UTF-8${others}.`);
  }
  if (request.headers['content-encoding'] && request.headers['content-encoding'] !== 'identity') {
    throw unreadable('unsupported_media_type', 'Send the body without Content-Encoding.');
  }
}

/** What the OpenAPI document says about a JSON body. */
export interface BodyShape {
  /** True if the body may be an array. */
  arrayBody: boolean;
  /** Members that are filters. Each is counted on its own, from its own first object. */
  filters?: FilterMembers | undefined;
}

/**
 * Parses a body and checks it against the limits.
 * @param path of the body in the request, for errors; empty if it is the whole body
 * @returns the value, and a problem for each string, number and name in it that cannot be stored.
 * If the body may be an array, a scalar is a problem too
 * @throws ApiError with the reason if the body is unreadable
 */
export function parseJson(
  bytes: Buffer,
  { arrayBody: arrayAllowed, filters }: BodyShape,
  path = '',
): { value: unknown; problems: FieldProblem[] } {
  const name = path || 'The body';
  let value: unknown;
  let text: string;
  try {
    if (!isUtf8(bytes)) throw new SyntaxError('not UTF-8');
    text = bytes.toString('utf8');
    value = JSON.parse(text);
  } catch {
    throw unreadable('malformed_json', `${name} is not valid JSON.`);
  }
  const isScalar = value === null || typeof value !== 'object';
  if (isScalar && arrayAllowed)
    return { value, problems: [buildProblem('', 'INVALID_TYPE', 'The body must be a JSON array or object')] };
  if (isScalar || (Array.isArray(value) && !arrayAllowed))
    throw unreadable('malformed_json', `${name} must be a JSON object.`);
  const problems: FieldProblem[] = [];
  // JSON must escape characters that cannot be stored, so a body without `\u` needs no check of its
  // strings.
  const suspect = text.includes('\\u') || text.includes('__proto__');
  walk(value, path, { objects: 0, arrays: 0, most: bodyLimits.depth, filters }, suspect, problems);
  return { value, problems };
}

/** Where a value is in a body. */
interface Place {
  /** Objects and arrays around it, in the body or in the filter that it belongs to. */
  objects: number;
  arrays: number;
  /** The most objects that can be nested here. */
  most: number;
  /** The filters below an object here. */
  filters: FilterMembers | undefined;
}

const filterPlace: Place = { objects: 0, arrays: 0, most: filterLimits.objects, filters: undefined };

function walk(value: unknown, path: string, place: Place, suspect: boolean, problems: FieldProblem[]): void {
  if (value === null || typeof value !== 'object') {
    const wrong = unstorable(value, suspect);
    if (wrong)
      problems.push(
        buildProblem(path, typeof value === 'number' ? 'OUT_OF_RANGE' : 'INVALID_FORMAT', `${path} ${wrong}`),
      );
    return;
  }
  if (Array.isArray(value)) {
    if (place.arrays === bodyLimits.depth)
      throw unreadable('nesting_too_deep', `Arrays must be nested at most ${bodyLimits.depth} levels deep.`);
    const below = { ...place, arrays: place.arrays + 1 };
    for (let index = 0; index < value.length; index += 1) {
      const inner: unknown = value[index];
      if (needsLook(inner, suspect)) walk(inner, `${path}[${index}]`, below, suspect, problems);
    }
    return;
  }
  if (place.objects === place.most)
    throw unreadable(
      'nesting_too_deep',
      `Objects${place.most === filterLimits.objects ? ' in a filter' : ''} must be nested at most ${place.most} levels deep.`,
    );
  const keys = Object.keys(value);
  if (keys.length > bodyLimits.keys)
    throw unreadable('too_many_keys', `An object must have at most ${bodyLimits.keys} keys.`);
  for (const key of keys) {
    const inner = (value as Record<string, unknown>)[key];
    const inside = () => (path ? `${path}.${key}` : key);
    if (needsLook(inner, suspect)) walk(inner, inside(), enterMember(place, key), suspect, problems);
    if (suspect && (key === '__proto__' || unstorable(key, suspect)))
      problems.push(
        buildProblem(inside(), 'UNKNOWN_FIELD', `${JSON.stringify(key)} is not allowed as the name of a field`),
      );
  }
}

function enterMember({ objects, arrays, most, filters }: Place, key: string): Place {
  const member = filters?.get(key);
  return member === 'filter' ? filterPlace : { objects: objects + 1, arrays, most, filters: member };
}

/** Returns true if a value must be walked or is invalid. The path is built only then. */
function needsLook(value: unknown, suspect: boolean): boolean {
  return typeof value === 'object' ? value !== null : unstorable(value, suspect) !== undefined;
}

/** Returns why a string or number that is valid JSON cannot be stored; undefined if it can. */
function unstorable(value: unknown, suspect: boolean): string | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'is too large';
  if (!suspect || typeof value !== 'string') return undefined;
  if (value.includes('\0')) return 'must not contain the NUL character';
  return value.isWellFormed() ? undefined : 'must not contain an unpaired surrogate';
}
