// Bodies that are the same for every caller: prepared once, with an ETag, compressed once.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { gzipSync } from 'node:zlib';

/**
 * The response for a prepared body: 304 if the caller's copy is current, compressed if the caller
 * accepts gzip.
 */
export interface PreparedAnswer {
  status: 200 | 304;
  body: Buffer | undefined;
  headers: Record<string, string>;
}

export class PreparedBody {
  readonly #plain: Buffer;
  readonly #etag: string;
  #compressed: Buffer | undefined;

  constructor(content: string | Buffer) {
    this.#plain = Buffer.from(content);
    // Weak, because the plain and the compressed form share it.
    this.#etag = `W/"${createHash('sha256').update(this.#plain).digest('base64url').slice(0, 22)}"`;
  }

  /** Returns a prepared body with changed content. */
  changed(change: (content: string) => string): PreparedBody {
    return new PreparedBody(change(this.#plain.toString()));
  }

  /** @param request headers with the caller's ETags and accepted encodings */
  answerTo(request: IncomingHttpHeaders): PreparedAnswer {
    const headers: Record<string, string> = { etag: this.#etag, vary: 'Accept-Encoding' };
    const known = request['if-none-match']?.split(',').map((etag) => etag.trim());
    if (known?.some((etag) => etag === this.#etag || etag === '*' || `W/${etag}` === this.#etag))
      return { status: 304, body: undefined, headers };
    if (!acceptsGzip(String(request['accept-encoding'] ?? ''))) return { status: 200, body: this.#plain, headers };
    this.#compressed ??= gzipSync(this.#plain);
    return { status: 200, body: this.#compressed, headers: { ...headers, 'content-encoding': 'gzip' } };
  }
}

function acceptsGzip(accepted: string): boolean {
  return accepted.split(',').some((part) => {
    const [coding, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return coding === 'gzip' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}
