// Reads a JSON body within the limits: 100 KB, five levels of objects, 100 keys in one object, UTF-8, no NUL characters.
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { type FieldProblem, problem, unreadable } from './errors.ts';

export const bodyLimits = { bytes: 102_400, depth: 5, keys: 100 } as const;

/** The client closed the connection before its body had arrived: nobody is left to answer. */
export class ClientGone extends Error {}

/**
 * Collects the bytes of a body.
 * @throws ApiError with reason body_too_large, as soon as the size is known
 */
export function readBytes(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = () => unreadable('body_too_large', `The body is larger than ${bodyLimits.bytes} bytes.`);
  if (Number(request.headers['content-length'] ?? 0) > bodyLimits.bytes) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > bodyLimits.bytes) {
        request.removeAllListeners('data');
        reject(tooLarge());
      } else chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.on('error', reject);
    request.on('close', () => {
      if (!request.complete) reject(new ClientGone());
    });
  });
}

/** Refuses any media type but JSON, and any encoding of it. */
export function checkMediaType(request: IncomingMessage): void {
  const type = request.headers['content-type'];
  const [media = '', ...parameters] = (type ?? '').toLowerCase().split(';');
  const charset = parameters.map((part) => part.trim()).find((part) => part.startsWith('charset='));
  if (media.trim() !== 'application/json' || (charset && !/^charset="?utf-8"?$/.test(charset))) {
    throw unreadable('unsupported_media_type', 'Send the body as Content-Type: application/json in UTF-8.');
  }
  if (request.headers['content-encoding'] && request.headers['content-encoding'] !== 'identity') {
    throw unreadable('unsupported_media_type', 'Send the body without Content-Encoding.');
  }
}

/**
 * Parses a body and holds it against the limits.
 * @param arrayAllowed true where the document lets the body be an array
 * @returns the value and the strings in it that no field can hold
 * @throws ApiError with the reason of an unreadable body
 */
export function parseJson(bytes: Buffer, arrayAllowed: boolean): { value: unknown; problems: FieldProblem[] } {
  let value: unknown;
  try {
    if (!isUtf8(bytes)) throw new SyntaxError('not UTF-8');
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw unreadable('malformed_json', 'The body is not valid JSON.');
  }
  const isArray = Array.isArray(value);
  if (value === null || typeof value !== 'object' || (isArray && !arrayAllowed)) {
    throw unreadable(
      'malformed_json',
      arrayAllowed ? 'The body must be a JSON object or array.' : 'The body must be a JSON object.',
    );
  }
  const problems: FieldProblem[] = [];
  walk(value, '', 0, 0, problems);
  return { value, problems };
}

/** PostgreSQL holds neither NUL nor, in JSON, an unpaired surrogate, which JSON's escapes can spell. */
function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

function walk(value: unknown, path: string, objects: number, arrays: number, problems: FieldProblem[]): void {
  if (typeof value === 'string') {
    if (!isStorable(value))
      problems.push(
        problem(path, 'INVALID_FORMAT', `${path} must not contain the NUL character or half of a surrogate pair`),
      );
    return;
  }
  if (value === null || typeof value !== 'object') return;
  if (Array.isArray(value)) {
    if (arrays === bodyLimits.depth)
      throw unreadable('nesting_too_deep', `Arrays are nested deeper than ${bodyLimits.depth} levels.`);
    for (let index = 0; index < value.length; index += 1)
      walk(value[index], `${path}[${index}]`, objects, arrays + 1, problems);
    return;
  }
  if (objects === bodyLimits.depth)
    throw unreadable('nesting_too_deep', `Objects are nested deeper than ${bodyLimits.depth} levels.`);
  const keys = Object.keys(value);
  if (keys.length > bodyLimits.keys)
    throw unreadable('too_many_keys', `An object has more than ${bodyLimits.keys} keys.`);
  for (const key of keys) {
    const inner = (value as Record<string, unknown>)[key];
    // Only strings and containers can break a rule here, so that plain numbers cost no path.
    if (typeof inner === 'string' ? !isStorable(inner) : typeof inner === 'object') {
      walk(inner, path ? `${path}.${key}` : key, objects + 1, arrays, problems);
    }
    if (key.includes('\0'))
      problems.push(problem(path, 'UNKNOWN_FIELD', 'A field name must not contain the NUL character'));
  }
}
