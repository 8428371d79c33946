// The outbound HTTP client: calls URLs that tenants configure, but not our own network (no SSRF).
import { Resolver, lookup as systemLookup } from 'node:dns/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { isHostName } from '../../domain/service/host-names.ts';
import { http } from '../http/node-http.ts';
import { isGlobalUnicast } from './addresses.ts';
import { openConnection, startTls } from './connections.ts';
import { OutgoingError, settleOnce, TimeLimit } from './faults.ts';

export { OutgoingError, type OutgoingFault } from './faults.ts';

export interface OutgoingRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PROPFIND' | 'REPORT';
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** The mode of the call. Private addresses can be allowed for test mode only. */
  testMode: boolean;
  /** Maximum bytes of the response body; the rest is not read. */
  mostBytes: number;
  /** Timeout of the whole call in milliseconds, if not the default. */
  within?: number;
}

export interface OutgoingAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** False if the body was longer than mostBytes or incomplete. */
  isWhole: boolean;
}

/** Which calls may use http and private addresses: for development. */
export type PrivateAddresses = 'refused' | 'in_test_mode' | 'allowed';

export interface OutgoingOptions {
  privateAddresses: PrivateAddresses;
  /** Resolves a host name to all its addresses; by default with the system's name servers. */
  resolve?: (name: string) => Promise<string[]>;
  /** An additional certificate to trust. */
  ca?: string;
}

/** Timeout of DNS look-up and connecting, in milliseconds. */
const connectTimeoutMs = 3000;
/** Default timeout of the whole call, in milliseconds. */
const callTimeoutMs = 15_000;
/** Timeout in milliseconds of a DNS look-up during a request of a caller. */
const quickLookUpMs = 500;
const maxHeaderBytes = 16_384;

export class OutgoingClient {
  readonly #privateAddresses: PrivateAddresses;
  readonly #resolve: ((name: string) => Promise<string[]>) | undefined;
  readonly #ca: string | undefined;

  constructor({ privateAddresses, resolve, ca }: OutgoingOptions) {
    this.#privateAddresses = privateAddresses;
    this.#resolve = resolve;
    this.#ca = ca;
  }

  /**
   * Returns why a URL cannot be called, as a phrase that follows its name; undefined if it can. A
   * name that does not resolve passes, since it may resolve later: each call looks it up again.
   */
  async findUrlRejection(url: string, testMode: boolean): Promise<string | undefined> {
    const isFree = this.#isFree(testMode);
    const refusal = findUrlProblem(url, isFree);
    if (refusal || isFree) return refusal;
    const limit = new TimeLimit(quickLookUpMs, quickLookUpMs);
    const addresses = await limit.wait(this.#resolveHost(getHost(new URL(url)), false)).catch(() => []);
    limit.end();
    return addresses.every(isGlobalUnicast) ? undefined : notPublic;
  }

  /**
   * Sends one request and reads its response. Redirects are not followed, proxy settings of the
   * environment are ignored, and connections are not reused.
   * @throws only OutgoingError, if no status was received
   */
  async send(request: OutgoingRequest): Promise<OutgoingAnswer> {
    const isFree = this.#isFree(request.testMode);
    if (findUrlProblem(request.url, isFree)) throw new OutgoingError('blocked_address');
    const url = new URL(request.url);
    const limit = new TimeLimit(request.within ?? callTimeoutMs, connectTimeoutMs);
    try {
      const addresses = await limit.wait(this.#resolveHost(getHost(url), isFree));
      if (!isFree && !addresses.every(isGlobalUnicast)) throw new OutgoingError('blocked_address');
      return await exchange(request, url, addresses, { isFree, ca: this.#ca, limit });
    } finally {
      limit.end();
    }
  }

  #isFree(testMode: boolean): boolean {
    return this.#privateAddresses === 'allowed' || (testMode && this.#privateAddresses === 'in_test_mode');
  }

  async #resolveHost(host: string, isFree: boolean): Promise<string[]> {
    if (isIP(host) !== 0) return [host];
    try {
      const found = await (this.#resolve ?? (isFree ? lookUpLocally : lookUp))(host);
      if (found.length > 0) return found;
    } catch (error) {
      throw new OutgoingError('dns', String(error));
    }
    throw new OutgoingError('dns');
  }
}

const invalidUrl = 'must be a URL such as https://hooks.example.com/crm';
const notPublic = 'must resolve to a public IP address';

/**
 * Returns why a URL is invalid, without looking it up.
 * @param isFree true if private addresses, http and all ports are allowed
 */
function findUrlProblem(text: string, isFree: boolean): string | undefined {
  const url = URL.parse(text);
  if (!url) return invalidUrl;
  if (url.protocol !== 'https:' && !(isFree && url.protocol === 'http:')) return 'must start with https://';
  if (url.username !== '' || url.password !== '') return 'must not contain a username or a password';
  const port = Number(url.port || 443);
  if (!isFree && port < 1024 && port !== 443) return 'must use port 443, 8443, or 1024 or higher';
  const host = getHost(url);
  if (isIP(host) === 0 && !isHostName(host)) return invalidUrl;
  if (!isFree && isIP(host) !== 0 && !isGlobalUnicast(host)) return notPublic;
  // localhost always means this machine, regardless of DNS.
  if (!isFree && /^(?:.+\.)?localhost\.?$/.test(host)) return notPublic;
  return undefined;
}

/**
 * Returns the host without the brackets of IPv6. The URL parser has already normalized numeric IPv4
 * forms.
 */
function getHost(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/**
 * Asks the name servers directly. getaddrinfo would block a thread of the shared pool while a name
 * server does not respond.
 */
async function lookUp(name: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 1000, tries: 2 });
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
}

/** Asks the system, which also knows local names. */
async function lookUpLocally(name: string): Promise<string[]> {
  const found = await systemLookup(name, { all: true, verbatim: true });
  return found.map(({ address }) => address);
}

/** Sends over a new connection, which is closed afterwards. */
async function exchange(
  request: OutgoingRequest,
  url: URL,
  addresses: readonly string[],
  { isFree, ca, limit }: { isFree: boolean; ca: string | undefined; limit: TimeLimit },
): Promise<OutgoingAnswer> {
  const host = getHost(url);
  const isSecure = url.protocol === 'https:';
  const port = Number(url.port || (isSecure ? 443 : 80));
  const connection = await openConnection(host, port, addresses, limit);
  let used = connection;
  try {
    limit.connected();
    if (!isFree && !isGlobalUnicast(connection.remoteAddress ?? '')) throw new OutgoingError('blocked_address');
    if (isSecure) used = await startTls(connection, host, ca, limit);
    return await askOver(used, request, url, port, limit);
  } finally {
    used.destroy();
    connection.destroy();
  }
}

function askOver(
  connection: Socket,
  { method, headers, body = '', mostBytes }: OutgoingRequest,
  url: URL,
  port: number,
  limit: TimeLimit,
): Promise<OutgoingAnswer> {
  return settleOnce('http_error', (resolve, reject) => {
    const sent = http.request({
      method,
      host: getHost(url),
      port,
      defaultPort: url.protocol === 'https:' ? 443 : 80,
      path: `${url.pathname}${url.search}`,
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      // No agent, so that connections are not shared and proxies of the environment not used.
      createConnection: () => connection,
      maxHeaderSize: maxHeaderBytes,
    });
    let answer: IncomingMessage | undefined;
    sent.on('response', (response) => {
      answer = response;
      readBody(response, mostBytes, (read, isWhole) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: read, isWhole });
      });
    });
    // A received status is the result, even if the body fails.
    sent.on('error', (error) => answer ?? reject(error));
    sent.on('close', () => answer ?? reject(new OutgoingError('http_error')));
    limit.onTimeout((late) => (answer ? answer.destroy() : reject(late)));
    sent.end(body);
  });
}

function readBody(response: IncomingMessage, most: number, done: (body: Buffer, isWhole: boolean) => void): void {
  const chunks: Buffer[] = [];
  let size = 0;
  const end = (isWhole: boolean): void => done(Buffer.concat(chunks).subarray(0, most), isWhole && size <= most);
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size > most) end(false);
  });
  response.on('end', () => end(response.complete));
  response.on('error', () => end(false));
  response.on('close', () => end(response.complete));
}
