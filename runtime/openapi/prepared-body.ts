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
  readonly #content: string | Buffer | (() => string);
  #loaded: { plain: Buffer; etag: string } | undefined;
  #compressed: Buffer | undefined;

  /** @param content a function is called at the first request */
  constructor(content: string | Buffer | (() => string)) {
    this.#content = typeof content === 'function' ? content : Buffer.from(content);
  }

  #load(): { plain: Buffer; etag: string } {
    if (this.#loaded) return this.#loaded;
    const plain = Buffer.from(typeof this.#content === 'function' ? this.#content() : this.#content);
    // Weak, because the plain and the compressed form share it.
    const etag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
    this.#loaded = { plain, etag };
    return this.#loaded;
  }

  /** Returns a prepared body with changed content. */
  changed(change: (content: string) => string): PreparedBody {
    return new PreparedBody(change(this.#load().plain.toString()));
  }

  /** @param request headers with the caller's ETags and accepted encodings */
  answerTo(request: IncomingHttpHeaders): PreparedAnswer {
    const { plain, etag } = this.#load();
    const headers: Record<string, string> = { etag, vary: 'Accept-Encoding' };
    const known = request['if-none-match']?.split(',').map((each) => each.trim());
    if (known?.some((each) => each === etag || each === '*' || `W/${each}` === etag))
      return { status: 304, body: undefined, headers };
    if (!acceptsGzip(String(request['accept-encoding'] ?? ''))) return { status: 200, body: plain, headers };
    this.#compressed ??= gzipSync(plain);
    return { status: 200, body: this.#compressed, headers: { ...headers, 'content-encoding': 'gzip' } };
  }
}

function acceptsGzip(accepted: string): boolean {
  return accepted.split(',').some((part) => {
    const [coding, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    return coding === 'gzip' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}
