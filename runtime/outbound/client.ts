// The guarded client: calls addresses that tenants name, without reaching into our own network.
import { Resolver, lookup as systemLookup } from 'node:dns/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { isHostName } from '../../domain/service/host-names.ts';
import { http } from '../http/node-http.ts';
import { isGlobalUnicast } from './addresses.ts';
import { openConnection, secureConnection } from './connections.ts';
import { OutgoingError, settleOnce, TimeLimit } from './faults.ts';

export { OutgoingError, type OutgoingFault } from './faults.ts';

export interface OutgoingRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PROPFIND' | 'REPORT';
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** In whose mode it is called: what the server was told to allow is allowed to test mode alone. */
  testMode: boolean;
  /** Of the answer's body; the rest is not read. */
  mostBytes: number;
  /** Milliseconds for all of it, unless said otherwise. */
  within?: number;
}

export interface OutgoingAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** False where the body was longer than asked for, or ended too early. */
  isWhole: boolean;
}

/** Who may call http and private addresses: for development. */
export type PrivateAddresses = 'refused' | 'in_test_mode' | 'allowed';

export interface OutgoingOptions {
  privateAddresses: PrivateAddresses;
  /** All addresses of a name; the name service of the system unless given. */
  resolve?: (name: string) => Promise<string[]>;
  /** A further certificate to trust. */
  ca?: string;
}

/** Milliseconds to find the address and to be connected. */
const connectTime = 3000;
/** Milliseconds until the whole answer is there. */
const wholeTime = 15_000;
/** Milliseconds that a look-up may take while a caller waits for more than it. */
const glanceTime = 500;
const mostHeaderBytes = 16_384;

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
   * What speaks against calling an address, in words that follow its name; undefined where nothing does. A name that is not known yet
   * may become so: it is looked up again for each call.
   */
  async refusalOf(url: string, testMode: boolean): Promise<string | undefined> {
    const isFree = this.#isFree(testMode);
    const refusal = formRefusal(url, isFree);
    if (refusal || isFree) return refusal;
    const limit = new TimeLimit(glanceTime, glanceTime);
    const addresses = await limit.wait(this.#addressesOf(hostOf(new URL(url)), false)).catch(() => []);
    limit.end();
    return addresses.every(isGlobalUnicast) ? undefined : notPublic;
  }

  /**
   * Sends one request and reads its answer. Redirects are answers like others; proxies of the environment are not used, and no
   * connection is used again.
   * @throws OutgoingError, and nothing else, if no status came
   */
  async send(request: OutgoingRequest): Promise<OutgoingAnswer> {
    const isFree = this.#isFree(request.testMode);
    if (formRefusal(request.url, isFree)) throw new OutgoingError('blocked_address');
    const url = new URL(request.url);
    const limit = new TimeLimit(request.within ?? wholeTime, connectTime);
    try {
      const addresses = await limit.wait(this.#addressesOf(hostOf(url), isFree));
      if (!isFree && !addresses.every(isGlobalUnicast)) throw new OutgoingError('blocked_address');
      return await exchange(request, url, addresses, { isFree, ca: this.#ca, limit });
    } finally {
      limit.end();
    }
  }

  #isFree(testMode: boolean): boolean {
    return this.#privateAddresses === 'allowed' || (testMode && this.#privateAddresses === 'in_test_mode');
  }

  async #addressesOf(host: string, isFree: boolean): Promise<string[]> {
    if (isIP(host) !== 0) return [host];
    try {
      const found = await (this.#resolve ?? (isFree ? lookUpHere : lookUp))(host);
      if (found.length > 0) return found;
    } catch (error) {
      throw new OutgoingError('dns', String(error));
    }
    throw new OutgoingError('dns');
  }
}

const noAddress = 'must be a URL such as https://hooks.example.com/crm';
const notPublic = 'must resolve to a public IP address';

/** What the form of an address tells already. @param isFree private addresses are allowed, and so are http and all ports */
function formRefusal(text: string, isFree: boolean): string | undefined {
  const url = URL.parse(text);
  if (!url) return noAddress;
  if (url.protocol !== 'https:' && !(isFree && url.protocol === 'http:')) return 'must start with https://';
  if (url.username !== '' || url.password !== '') return 'must not contain a username or a password';
  const port = Number(url.port || 443);
  if (!isFree && port < 1024 && port !== 443) return 'must use port 443, 8443, or 1024 or higher';
  const host = hostOf(url);
  if (isIP(host) === 0 && !isHostName(host)) return noAddress;
  if (!isFree && isIP(host) !== 0 && !isGlobalUnicast(host)) return notPublic;
  // Every machine's own name for itself, whatever name servers say of it.
  if (!isFree && /^(?:.+\.)?localhost\.?$/.test(host)) return notPublic;
  return undefined;
}

/** The parser has brought numbers of any form into the usual one; IPv6 stands in brackets. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/** Asks the name servers, without the threads that a name which does not answer would hold up for everybody. */
async function lookUp(name: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 1000, tries: 2 });
  const found = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
}

/** Asks the system, which also knows the names of this machine. */
async function lookUpHere(name: string): Promise<string[]> {
  const found = await systemLookup(name, { all: true, verbatim: true });
  return found.map(({ address }) => address);
}

/** Sends over a connection of its own, which is closed afterwards. */
async function exchange(
  request: OutgoingRequest,
  url: URL,
  addresses: readonly string[],
  { isFree, ca, limit }: { isFree: boolean; ca: string | undefined; limit: TimeLimit },
): Promise<OutgoingAnswer> {
  const host = hostOf(url);
  const isSecure = url.protocol === 'https:';
  const port = Number(url.port || (isSecure ? 443 : 80));
  const connection = await openConnection(host, port, addresses, limit);
  let used = connection;
  try {
    limit.connected();
    if (!isFree && !isGlobalUnicast(connection.remoteAddress ?? '')) throw new OutgoingError('blocked_address');
    if (isSecure) used = await secureConnection(connection, host, ca, limit);
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
      host: hostOf(url),
      port,
      defaultPort: url.protocol === 'https:' ? 443 : 80,
      path: `${url.pathname}${url.search}`,
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      // Without an agent: no connection of another call, and no proxy of the environment.
      createConnection: () => connection,
      maxHeaderSize: mostHeaderBytes,
    });
    let answer: IncomingMessage | undefined;
    sent.on('response', (response) => {
      answer = response;
      readBody(response, mostBytes, (read, isWhole) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: read, isWhole });
      });
    });
    // Once there is a status, that is the answer, however its body ends.
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
