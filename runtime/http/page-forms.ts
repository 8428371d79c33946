// Receives forms of pages that upload one file: the fields in memory, the file streamed to disk.
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import busboy from 'busboy';
import { findRefusedExtension, toSafeFileName } from '../../domain/records/file-names.ts';
import { uploadLimits } from '../../domain/service/request-limits.ts';
import { ApiError, buildProblem, unreadable, validationFailed } from '../errors.ts';
import { followBody, isForm, readType, type Upload, writing } from './multipart.ts';

/** The file of a form. */
export interface PageFile extends Upload {
  /** Returns the first bytes of the file. */
  readHead(most: number): Promise<Buffer>;
}

/** A received form. */
export interface PageForm {
  /** The fields before the file; also those of a rejected form. */
  form: URLSearchParams;
  file: PageFile | undefined;
  /** Why the file was rejected. */
  refused: ApiError | undefined;
  /** Deletes the file, unless it was moved away. */
  discard(): Promise<void>;
}

/** A form with a file that a page accepts. */
export interface PageUpload {
  /** The name of the field with the file. */
  field: string;
  /** The most bytes of the file. */
  bytes: number;
}

/**
 * Receives a form. Rejects files that are too large, empty or named like a program.
 * @param folder the file is written here under a random name
 * @param isAccepted gets the fields before the file; returns false if no file may be written. The
 * form then has no file, and is not rejected.
 * @throws ClientGone if the client disconnects
 */
export async function receivePageForm(
  request: IncomingMessage,
  folder: string,
  { field, bytes: limit }: PageUpload,
  isAccepted: (form: URLSearchParams) => boolean,
  invite: () => void,
): Promise<PageForm> {
  const path = join(folder, randomUUID());
  const form = new URLSearchParams();
  const discard = () => rm(path, { force: true });
  const refuse = async (error: ApiError): Promise<PageForm> => {
    await discard();
    return { form, file: undefined, refused: error, discard };
  };
  const tooLarge = unreadable('file_too_large', `The file must be at most ${Math.floor(limit / 1_048_576)} MB.`);
  const formLimit = limit + uploadLimits.around;
  if (!isForm(request)) return refuse(malformed());
  if (Number(request.headers['content-length'] ?? 0) > formLimit) return refuse(tooLarge);
  let parser: busboy.Busboy;
  try {
    parser = busboy({
      headers: request.headers,
      preservePath: true,
      defParamCharset: 'utf8',
      limits: partLimits(limit),
    });
  } catch {
    return refuse(malformed());
  }
  const content = createHash('sha256');
  let bytes = 0;
  let found: Pick<Upload, 'name' | 'contentType'> | undefined;
  let refusedExtension: string | undefined;
  let isForeign = false;
  let writingFile: Promise<void> = Promise.resolve();
  async function* measure(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      bytes += chunk.length;
      content.update(chunk);
      yield chunk;
    }
  }
  const takeFile = (name: string, stream: Readable, fileName: string | undefined, type: string): void => {
    // Browsers send a part without a file name if no file was chosen.
    isForeign ||= !isAccepted(form);
    if (isForeign || name !== field || found || !fileName) {
      stream.on('error', () => undefined).resume();
      return;
    }
    found = { name: toSafeFileName(fileName), contentType: readType(type) };
    refusedExtension = findRefusedExtension(fileName);
    writingFile = pipeline(stream, measure, createWriteStream(path, writing));
    // Awaited below; until then a rejection must not count as unhandled.
    writingFile.catch(() => undefined);
  };
  parser.on('file', (name, stream, { filename, mimeType }) => takeFile(name, stream, filename, mimeType));
  parser.on('field', (name, value) => form.append(name ?? '', value));
  invite();
  try {
    const requestHash = await readAll(request, parser, formLimit, tooLarge);
    await writingFile;
    if (refusedExtension !== undefined)
      throw unreadable('file_type_refused', `Files with .${refusedExtension} in their name are not accepted.`);
    if (bytes > limit) throw tooLarge;
    if (isForeign) return { form, file: undefined, refused: undefined, discard };
    if (!found) throw validationFailed([buildProblem(field, 'REQUIRED', `${field} is required`)], 400);
    if (bytes === 0) throw validationFailed([buildProblem(field, 'TOO_SHORT', `${field} must not be empty`)], 400);
    const upload = { ...found, isNamed: true, path, bytes, sha256: content.digest('hex'), requestHash };
    return { form, file: { ...upload, readHead: (most) => readHead(path, most) }, refused: undefined, discard };
  } catch (error) {
    parser.destroy();
    await writingFile.catch(() => undefined);
    if (error instanceof ApiError) return refuse(error);
    await discard();
    throw error;
  }
}

const malformed = () => unreadable('malformed_multipart', 'The form is incomplete. Choose the file and send it again.');

/** One byte above the limit, because the parser stops as soon as it reaches its limit. */
const partLimits = (limit: number): busboy.Limits => ({
  fileSize: limit + 1,
  fieldNameSize: 100,
  fieldSize: 1024,
  parts: 20,
  headerPairs: 50,
});

/**
 * Feeds the parser until the form ends.
 * @returns the SHA-256 of the body
 */
function readAll(request: IncomingMessage, parser: busboy.Busboy, limit: number, tooLarge: ApiError): Promise<Buffer> {
  const hash = createHash('sha256');
  let total = 0;
  return new Promise<Buffer>((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      total += chunk.length;
      hash.update(chunk);
      if (total > limit) fail(tooLarge);
      else if (!parser.write(chunk)) request.pause();
    };
    const fail = followBody(request, take, () => parser.end(), reject);
    parser.on('drain', () => request.resume());
    parser.on('error', () => fail(malformed()));
    parser.on('close', () => resolve(hash.digest()));
  });
}

async function readHead(path: string, most: number): Promise<Buffer> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(most), 0, most, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
