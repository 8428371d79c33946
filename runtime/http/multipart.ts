// Receives uploads: multipart forms with one file, streamed to the disk.
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';
import { refusedExtension, safeFileName } from '../../domain/records/file-names.ts';
import { bodyLimits, uploadLimits } from '../../domain/service/request-limits.ts';
import { type FieldProblem, problem, unreadable } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';
import { refusal } from '../pipeline/validation.ts';
import { startResponsiveTimeout } from '../responsive-timeout.ts';
import { bodyBroken, bodyFault, ClientGone } from './body.ts';

/** Milliseconds in which an upload must send at least bodyLimits.bytes, or it is rejected. */
const pace = uploadLimits.paceSeconds * 1000;

/** A received file. */
export interface Upload {
  path: string;
  name: string;
  contentType: string;
  bytes: number;
  /** In hexadecimal. */
  sha256: string;
  /** SHA-256 of the whole body. */
  requestHash: Buffer;
}

const tooLarge = () => unreadable('file_too_large', `The file must be at most ${uploadLimits.bytes} bytes.`);

/**
 * Receives a form. Deletes the file if the form is rejected.
 * @param folder the file is written here under a random name
 * @param invite asks a client that sent `Expect: 100-continue` to send the form
 * @throws ApiError 400 or 422 with the problems; ClientGone
 */
export async function receiveUpload(
  operation: Operation,
  request: IncomingMessage,
  folder: string,
  invite: () => void,
): Promise<Upload> {
  const form = new Form(operation, request, join(folder, randomUUID()));
  invite();
  try {
    return await form.receive();
  } catch (error) {
    await form.discard();
    throw error;
  }
}

class Form {
  readonly #operation: Operation;
  readonly #request: IncomingMessage;
  readonly #path: string;
  readonly #parser: busboy.Busboy;
  readonly #problems: FieldProblem[] = [];
  readonly #content = createHash('sha256');
  #file: { name: string; contentType: string } | undefined;
  #bytes = 0;
  #refusedExtension: string | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(operation: Operation, request: IncomingMessage, path: string) {
    this.#operation = operation;
    this.#request = request;
    this.#path = path;
    this.#parser = openParser(request);
    if (Number(request.headers['content-length'] ?? 0) > uploadLimits.bytes + uploadLimits.around) throw tooLarge();
    this.#parser.on('file', (name, stream, { filename, mimeType }) => this.#takeFile(name, stream, filename, mimeType));
    this.#parser.on('field', (name) => this.#takeField(name));
  }

  async receive(): Promise<Upload> {
    const requestHash = await this.#readAll();
    await this.#writing;
    const { upload: field = '' } = this.#operation;
    if (this.#refusedExtension !== undefined)
      throw unreadable('file_type_refused', `Files with .${this.#refusedExtension} in their name are not accepted.`);
    if (this.#bytes > uploadLimits.bytes) throw tooLarge();
    const named = this.#problems.some((each) => each.field === field);
    if (!this.#file && !named) this.#problems.push(problem(field, 'REQUIRED', `${field} is required`));
    else if (this.#file && this.#bytes === 0)
      this.#problems.push(problem(field, 'TOO_SHORT', `${field} must not be empty`));
    if (this.#problems.length > 0 || !this.#file) throw refusal(this.#operation, this.#problems, 'body');
    const sha256 = this.#content.digest('hex');
    return { ...this.#file, path: this.#path, bytes: this.#bytes, sha256, requestHash };
  }

  async discard(): Promise<void> {
    this.#parser.destroy();
    await this.#writing.catch(() => undefined);
    await rm(this.#path, { force: true });
  }

  #takeFile(name: string, stream: Readable, fileName: string | undefined, contentType: string): void {
    const { upload: field } = this.#operation;
    if (name !== field || this.#file || !fileName) {
      this.#takeField(name);
      stream.on('error', () => undefined).resume();
      return;
    }
    this.#file = { name: safeFileName(fileName), contentType: readType(contentType) };
    this.#refusedExtension = refusedExtension(fileName);
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

  /** Records a problem for a part that is not the expected file. */
  #takeField(name: string | undefined): void {
    const { upload: field = '' } = this.#operation;
    if (name !== field) {
      const unknown = name ?? '';
      this.#problems.push(
        problem(unknown, 'UNKNOWN_FIELD', `${unknown} is not a field of this request`, { allowed: [field] }),
      );
    } else if (this.#file) this.#problems.push(problem(field, 'DUPLICATE', `${field} must be sent only once`));
    else this.#problems.push(problem(field, 'INVALID_FORMAT', `${field} must be a file with a file name`));
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
    let sincePace = 0;
    return new Promise<Buffer>((resolve, reject) => {
      const checkPace = (): void => {
        if (sincePace < bodyLimits.bytes) {
          fail(unreadable('upload_too_slow', 'The upload was too slow. Try again.'));
          return;
        }
        sincePace = 0;
        cancel = startResponsiveTimeout(checkPace, pace);
      };
      let cancel = startResponsiveTimeout(checkPace, pace);
      const stop = (): void => {
        cancel();
        request.off('data', take).off('end', end).off('error', gone).off('close', gone).off(bodyBroken, fail);
      };
      const fail = (error: Error): void => {
        stop();
        reject(error);
      };
      const take = (chunk: Buffer): void => {
        total += chunk.length;
        sincePace += chunk.length;
        hash.update(chunk);
        if (total > uploadLimits.bytes + uploadLimits.around) fail(tooLarge());
        else if (!parser.write(chunk)) request.pause();
      };
      const end = (): void => {
        stop();
        parser.end();
      };
      const gone = (): void => fail(new ClientGone());
      parser.on('drain', () => request.resume());
      parser.on('error', () => fail(unreadable('malformed_multipart', 'The body is not a complete multipart form.')));
      parser.on('close', () => resolve(hash.digest()));
      const fault = bodyFault(request);
      if (fault) fail(fault);
      else if (request.destroyed) gone();
      else request.on('data', take).on('end', end).on('error', gone).on('close', gone).on(bodyBroken, fail);
    });
  }
}

/** Flushes to the disk before closing, and never overwrites an existing file. */
const writing = { flags: 'wx', mode: 0o600, flush: true };

function openParser(request: IncomingMessage): busboy.Busboy {
  const unsupported = (what: string) => unreadable('unsupported_media_type', what);
  if (request.headers['content-encoding'] && request.headers['content-encoding'] !== 'identity')
    throw unsupported('Send the body without Content-Encoding.');
  if (!/^multipart\/form-data\s*;/i.test(request.headers['content-type'] ?? ''))
    throw unsupported('Send the body as Content-Type: multipart/form-data with a boundary.');
  try {
    return busboy({
      headers: request.headers,
      preservePath: true,
      defParamCharset: 'utf8',
      // One byte above the limit, because the parser stops as soon as it reaches its limit.
      limits: { fileSize: uploadLimits.bytes + 1, fieldNameSize: 100, fieldSize: 1024, parts: 20, headerPairs: 50 },
    });
  } catch {
    throw unsupported('The Content-Type header must include the boundary of the form.');
  }
}

/** Returns the declared media type, or application/octet-stream if it is not a valid one. */
function readType(given: string): string {
  const type = given.toLowerCase();
  return /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/.test(type) ? type : 'application/octet-stream';
}
