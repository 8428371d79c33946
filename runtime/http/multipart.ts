// Receives uploads: multipart forms with one file and maybe JSON, and bare files, streamed to disk.
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';
import { findRefusedExtension, toSafeFileName } from '../../domain/records/file-names.ts';
import { bodyLimits, uploadLimits } from '../../domain/service/request-limits.ts';
import { buildProblem, type FieldProblem, unreadable } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';
import { toValidationError } from '../pipeline/validation.ts';
import { startResponsiveTimeout } from '../responsive-timeout.ts';
import { bodyBroken, ClientGone, findBodyFault } from './body.ts';

/** Milliseconds in which an upload must send at least bodyLimits.bytes, or it is rejected. */
const pace = uploadLimits.paceSeconds * 1000;

/** A received file. */
export interface Upload {
  path: string;
  name: string;
  /** False if the body is the file itself: its name is then that of the field in a form. */
  isNamed: boolean;
  contentType: string;
  bytes: number;
  /** In hexadecimal. */
  sha256: string;
  /** SHA-256 of the whole body. */
  requestHash: Buffer;
}

const tooLarge = (limit: number) => unreadable('file_too_large', `The file must be at most ${limit} bytes.`);

/** Returns true if the body is declared as a form. */
export function isForm(request: IncomingMessage): boolean {
  return /^multipart\/form-data\s*(;|$)/i.test(request.headers['content-type'] ?? '');
}

/**
 * Receives a form, or a file without a form if the operation accepts its media type. Deletes the
 * file if the request is rejected.
 * @param folder the file is written here under a random name
 * @param invite asks a client that sent `Expect: 100-continue` to send the form
 * @param takeJson gets the JSON body of the form before its file arrives, and can reject it
 * @throws ApiError 400 or 422 with the problems; ClientGone
 */
export async function receiveUpload(
  operation: Operation,
  request: IncomingMessage,
  folder: string,
  invite: () => void,
  takeJson: (bytes: Buffer) => void,
): Promise<Upload> {
  const path = join(folder, randomUUID());
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const upload = operation.rawTypes.includes(type)
    ? new BareFile(operation, request, path, type)
    : new Form(operation, request, path, takeJson);
  invite();
  try {
    return await upload.receive();
  } catch (error) {
    await upload.discard();
    throw error;
  }
}

class Form {
  readonly #operation: Operation;
  readonly #request: IncomingMessage;
  readonly #path: string;
  readonly #takeJson: (bytes: Buffer) => void;
  /** Bytes of the file, and of the whole form. */
  readonly #limit: number;
  readonly #formLimit: number;
  readonly #parser: busboy.Busboy;
  readonly #problems: FieldProblem[] = [];
  readonly #content = createHash('sha256');
  #file: { name: string; contentType: string } | undefined;
  #bytes = 0;
  #refusedExtension: string | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** The JSON body, once its part has begun. */
  #json: Promise<void> | undefined;
  /** Stops reading the form with an error. */
  #fail: (error: Error) => void = () => undefined;

  constructor(operation: Operation, request: IncomingMessage, path: string, takeJson: (bytes: Buffer) => void) {
    this.#operation = operation;
    this.#request = request;
    this.#path = path;
    this.#takeJson = takeJson;
    this.#limit = operation.uploadBytes;
    const json = operation.uploadJson === undefined ? 0 : bodyLimits.bytes;
    this.#formLimit = this.#limit + json + uploadLimits.around;
    this.#parser = openParser(request, operation);
    if (Number(request.headers['content-length'] ?? 0) > this.#formLimit) throw tooLarge(this.#limit);
    this.#parser.on('file', (name, stream, { filename, mimeType }) => this.#takeFile(name, stream, filename, mimeType));
    this.#parser.on('field', (name, value) => {
      if (name !== undefined && name === operation.uploadJson) {
        // The parser replaces bytes that are not UTF-8.
        if (value.includes('\ufffd')) this.#fail(unreadable('malformed_json', `${name} is not UTF-8.`));
        else this.#receiveJson(name, [Buffer.from(value)]);
      } else this.#takeField(name);
    });
  }

  async receive(): Promise<Upload> {
    const requestHash = await this.#readAll();
    await Promise.all([this.#writing, this.#json]);
    const { upload: field = '', uploadJson: json } = this.#operation;
    if (this.#refusedExtension !== undefined)
      throw unreadable('file_type_refused', `Files with .${this.#refusedExtension} in their name are not accepted.`);
    if (this.#bytes > this.#limit) throw tooLarge(this.#limit);
    if (json !== undefined && !this.#json && !this.#isNamed(json))
      this.#problems.push(buildProblem(json, 'REQUIRED', `${json} is required`));
    if (!this.#file && !this.#isNamed(field))
      this.#problems.push(buildProblem(field, 'REQUIRED', `${field} is required`));
    else if (this.#file && this.#bytes === 0)
      this.#problems.push(buildProblem(field, 'TOO_SHORT', `${field} must not be empty`));
    if (this.#problems.length > 0 || !this.#file) throw toValidationError(this.#operation, this.#problems, 'body');
    const sha256 = this.#content.digest('hex');
    return { ...this.#file, isNamed: true, path: this.#path, bytes: this.#bytes, sha256, requestHash };
  }

  #isNamed(field: string): boolean {
    return this.#problems.some((each) => each.field === field);
  }

  async discard(): Promise<void> {
    this.#parser.destroy();
    await this.#writing.catch(() => undefined);
    await rm(this.#path, { force: true });
  }

  #takeFile(name: string, stream: Readable, fileName: string | undefined, contentType: string): void {
    const { upload: field, uploadJson: json } = this.#operation;
    // Some clients send every part with a media type as a file.
    if (name !== undefined && name === json) {
      this.#receiveJson(name, stream);
      return;
    }
    if (name !== field || this.#file || !fileName) {
      this.#takeField(name);
      stream.on('error', () => undefined).resume();
      return;
    }
    this.#file = { name: toSafeFileName(fileName), contentType: readType(contentType) };
    this.#refusedExtension = findRefusedExtension(fileName);
    this.#writing = pipeline(stream, (source) => this.#measure(source), createWriteStream(this.#path, writing));
    // receive() awaits this promise later; until then a rejection must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  async *#measure(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      this.#bytes += chunk.length;
      this.#content.update(chunk);
      yield chunk;
    }
  }

  /** Takes the JSON body, which must come before the file, so that it can be rejected without it. */
  #receiveJson(name: string, content: Iterable<Buffer> | Readable): void {
    const isRepeated = this.#json !== undefined || this.#isNamed(name);
    if (isRepeated || this.#file) {
      if ('resume' in content) content.on('error', () => undefined).resume();
      this.#problems.push(
        isRepeated
          ? buildProblem(name, 'DUPLICATE', `${name} must be sent only once`)
          : buildProblem(name, 'INVALID_FORMAT', `${name} must come before ${this.#operation.upload}`),
      );
      return;
    }
    this.#json = this.#readJson(name, content);
    this.#json.catch((error: Error) => this.#fail(error));
  }

  async #readJson(name: string, content: Iterable<Buffer> | Readable): Promise<void> {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > bodyLimits.bytes)
        throw unreadable('body_too_large', `${name} must be at most ${bodyLimits.bytes} bytes.`);
      chunks.push(chunk);
    }
    this.#takeJson(Buffer.concat(chunks));
  }

  /** Records a problem for a part that is not the expected file. */
  #takeField(name: string | undefined): void {
    const { upload: field = '', uploadJson: json } = this.#operation;
    if (name !== field) {
      const unknown = name ?? '';
      const allowed = json === undefined ? [field] : [json, field];
      this.#problems.push(
        buildProblem(unknown, 'UNKNOWN_FIELD', `${unknown} is not a field of this request`, { allowed }),
      );
    } else if (this.#file) this.#problems.push(buildProblem(field, 'DUPLICATE', `${field} must be sent only once`));
    else this.#problems.push(buildProblem(field, 'INVALID_FORMAT', `${field} must be a file with a file name`));
  }

  /**
   * Feeds the parser until the form ends.
   * @returns the SHA-256 of the body
   */
  #readAll(): Promise<Buffer> {
    const request = this.#request;
    const parser = this.#parser;
    const hash = createHash('sha256');
    let total = 0;
    return new Promise<Buffer>((resolve, reject) => {
      const take = (chunk: Buffer): void => {
        total += chunk.length;
        hash.update(chunk);
        if (total > this.#formLimit) fail(tooLarge(this.#limit));
        else if (!parser.write(chunk)) request.pause();
      };
      const fail = followBody(request, take, () => parser.end(), reject);
      this.#fail = fail;
      parser.on('drain', () => request.resume());
      parser.on('error', () => fail(unreadable('malformed_multipart', 'The body is not a complete multipart form.')));
      parser.on('close', () => resolve(hash.digest()));
    });
  }
}

/** A body that is the file itself. */
class BareFile {
  readonly #operation: Operation;
  readonly #request: IncomingMessage;
  readonly #path: string;
  readonly #type: string;

  constructor(operation: Operation, request: IncomingMessage, path: string, type: string) {
    this.#operation = operation;
    this.#request = request;
    this.#path = path;
    this.#type = type;
    requireNoEncoding(request);
    if (Number(request.headers['content-length'] ?? 0) > operation.uploadBytes) throw tooLarge(operation.uploadBytes);
  }

  async receive(): Promise<Upload> {
    const { upload: field = '', uploadBytes: limit } = this.#operation;
    const request = this.#request;
    const hash = createHash('sha256');
    const source = new PassThrough();
    const written = pipeline(source, createWriteStream(this.#path, writing));
    // Awaited below; until then a rejection must not count as unhandled.
    written.catch(() => undefined);
    let bytes = 0;
    try {
      await new Promise<void>((resolve, reject) => {
        const take = (chunk: Buffer): void => {
          bytes += chunk.length;
          hash.update(chunk);
          if (bytes > limit) fail(tooLarge(limit));
          else if (!source.write(chunk)) request.pause();
        };
        const fail = followBody(request, take, resolve, reject);
        source.on('drain', () => request.resume()).on('error', reject);
      });
    } catch (error) {
      source.destroy();
      await written.catch(() => undefined);
      throw error;
    }
    source.end();
    await written;
    if (bytes === 0)
      throw toValidationError(
        this.#operation,
        [buildProblem(field, 'TOO_SHORT', `${field} must not be empty`)],
        'body',
      );
    const digest = hash.digest();
    return {
      path: this.#path,
      name: field,
      isNamed: false,
      contentType: this.#type,
      bytes,
      sha256: digest.toString('hex'),
      requestHash: digest,
    };
  }

  async discard(): Promise<void> {
    await rm(this.#path, { force: true });
  }
}

/**
 * Reads a body to its end, and requires the minimum speed of uploads.
 * @returns a function that stops reading with an error
 */
export function followBody(
  request: IncomingMessage,
  take: (chunk: Buffer) => void,
  onEnd: () => void,
  reject: (error: Error) => void,
): (error: Error) => void {
  let sincePace = 0;
  const checkPace = (): void => {
    if (sincePace < bodyLimits.bytes) {
      fail(unreadable('upload_too_slow', 'The upload was too slow. Try again.'));
      return;
    }
    sincePace = 0;
    cancel = startResponsiveTimeout(checkPace, pace);
  };
  let cancel = startResponsiveTimeout(checkPace, pace);
  const count = (chunk: Buffer): void => {
    sincePace += chunk.length;
    take(chunk);
  };
  const stop = (): void => {
    cancel();
    request.off('data', count).off('end', end).off('error', gone).off('close', gone).off(bodyBroken, fail);
  };
  const fail = (error: Error): void => {
    stop();
    reject(error);
  };
  const end = (): void => {
    stop();
    onEnd();
  };
  const gone = (): void => fail(new ClientGone());
  const fault = findBodyFault(request);
  if (fault) fail(fault);
  else if (request.destroyed) gone();
  else request.on('data', count).on('end', end).on('error', gone).on('close', gone).on(bodyBroken, fail);
  return fail;
}

/** Flushes to the disk before closing, and never overwrites an existing file. */
export const writing = { flags: 'wx', mode: 0o600, flush: true };

const unsupported = (what: string) => unreadable('unsupported_media_type', what);

function requireNoEncoding(request: IncomingMessage): void {
  if (request.headers['content-encoding'] && request.headers['content-encoding'] !== 'identity')
    throw unsupported('Send the body without Content-Encoding.');
}

function openParser(request: IncomingMessage, { rawTypes, uploadBytes, uploadJson }: Operation): busboy.Busboy {
  requireNoEncoding(request);
  if (!/^multipart\/form-data\s*;/i.test(request.headers['content-type'] ?? '')) {
    const types = ['multipart/form-data with a boundary', ...rawTypes].join(', or ');
    throw unsupported(`Send the body as Content-Type: ${types}.`);
  }
  try {
    return busboy({
      headers: request.headers,
      preservePath: true,
      defParamCharset: 'utf8',
      // One byte above the limit, because the parser stops as soon as it reaches its limit.
      limits: {
        fileSize: uploadBytes + 1,
        fieldNameSize: 100,
        fieldSize: uploadJson === undefined ? 1024 : bodyLimits.bytes + 1,
        parts: 20,
        headerPairs: 50,
      },
    });
  } catch {
    throw unsupported('The Content-Type header must include the boundary of the form.');
  }
}

/** Returns the declared media type, or application/octet-stream if it is not a valid one. */
export function readType(given: string): string {
  const type = given.toLowerCase();
  return /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/.test(type) ? type : 'application/octet-stream';
}
