// Connections: requests answered one at a time, in order, and a bound on what waits for a reader.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiError } from '../errors.ts';
import { breakBody } from './body.ts';
import { dropRest, http } from './node-http.ts';
import { unreadableRequest } from './request-head.ts';

/** Requests that may wait on one connection for the answers before them. */
const mostWaiting = 100;
/** Bytes that all waiting requests may take in memory. */
const mostWaitingBytes = 8 * 1024 * 1024;
/** Bytes that a request takes in memory beside its address and headers, as measured. */
const bytesOfRequest = 3000;
/** Bytes of answers that all clients together may leave unread. */
const mostUnread = 32 * 1024 * 1024;
/** Milliseconds of no progress, once or twice in a row, after which a client that does not read its answer is cut off. */
export const stalledWrite = 6500;

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

/** What clients have a process hold for them now, and what that came to. */
export interface Load {
  /** Requests that are being answered. */
  requests: number;
  /** Requests that wait on their connection for the answers before them. */
  waiting: number;
  /** Bytes of answers that clients have not taken. */
  unreadBytes: number;
  /** Connections that were cut because that was too much, since the start. */
  cut: number;
}

export const noLoad = (): Load => ({ requests: 0, waiting: 0, unreadBytes: 0, cut: 0 });

/** Answers one request; what it sends may announce the end of the connection. */
export type Respond = (request: IncomingMessage, response: ServerResponse, connection: Connection) => void;

/** What is known of one connection. */
export class Connection {
  /** The request that was begun last, whether it is answered or not. */
  current: Exchange | undefined;
  /** Requests that came before the answers to those in front of them. */
  readonly waiting: Exchange[] = [];
  waitingBytes = 0;
  /** True once its end was announced, or something came that is no HTTP: nothing more that comes on it is looked at. */
  isEnding = false;

  /** True while a request of it is not answered, or its answer is not taken. */
  get isBusy(): boolean {
    return this.waiting.length > 0 || (this.current !== undefined && !isOver(this.current.response));
  }

  /** The last request that came. */
  get last(): Exchange | undefined {
    return this.waiting.at(-1) ?? this.current;
  }

  /** True when the answer to the current request must say that it is the last. */
  get isLast(): boolean {
    return this.isEnding && this.waiting.length === 0;
  }
}

/** All connections of a server. */
export class Connections {
  readonly #respond: Respond;
  readonly #load: Load;
  readonly #connections = new WeakMap<Socket, Connection>();
  #waitingBytes = 0;
  /** Answers that the system has not taken, the oldest first, with their bytes. */
  readonly #unread = new Map<ServerResponse, number>();

  constructor(respond: Respond, load: Load) {
    this.#respond = respond;
    this.#load = load;
  }

  /** Takes a request: it is answered when those before it are. */
  take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const connection = this.#of(socket);
    if (connection.isEnding) return;
    if (!connection.isBusy) {
      connection.current = { request, response };
      this.#respond(request, response, connection);
      return;
    }
    const bytes = bytesOf(request);
    if (connection.waiting.length === mostWaiting || this.#waitingBytes + bytes > mostWaitingBytes) {
      this.end(connection);
      this.#cut(socket);
      dropRest(socket);
      return;
    }
    connection.waiting.push({ request, response });
    connection.waitingBytes += bytes;
    this.#waitingBytes += bytes;
    this.#load.waiting += 1;
    if (connection.waiting.length > 1) return;
    // Nothing more is read until all of these are answered.
    socket.pause();
    this.#nextAfter(connection);
  }

  /** Takes a CONNECT, for which Node makes no response: it is answered like any other method, and the connection ends. */
  takeConnect(request: IncomingMessage): void {
    const { socket } = request;
    const response = new http.ServerResponse(request);
    response.shouldKeepAlive = false;
    socket.on('error', () => undefined);
    response.on('finish', () => socket.destroySoon());
    const answer = (): void => {
      if (socket.destroyed) return;
      response.assignSocket(socket);
      this.take(request, response);
    };
    const connection = this.#of(socket);
    if (connection.isBusy) connection.last?.response.once('close', answer);
    else answer();
  }

  /**
   * Ends a connection on which something came that cannot be read. Requests that came whole are answered first; one whose body
   * it broke is refused for that.
   * @param refuse answers where no request is under way
   */
  refuse(socket: Socket, code: string | undefined, refuse: (error: ApiError) => void): void {
    const connection = this.#of(socket);
    if (connection.isEnding && code !== 'ECONNRESET') return;
    if (code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    connection.isEnding = true;
    const error = unreadableRequest(code);
    const { last, isBusy } = connection;
    const brokenBody = last && !last.request.complete ? last.request : undefined;
    if (isBusy) {
      if (brokenBody) breakBody(brokenBody, error);
      last?.response.once('close', () => socket.destroySoon());
    } else if (brokenBody) socket.destroy();
    else refuse(error);
  }

  /** Lets the answer that is about to be sent be the last: requests behind it are not carried out. */
  end(connection: Connection): void {
    connection.isEnding = true;
    this.#forget(connection);
  }

  /** Watches an answer that was sent until the client has taken it. */
  watch(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const bytes = response.writableLength;
    if (bytes === 0) return;
    // What the system has not taken waits for the client to read; a client that reads on is given all the time it needs.
    socket.setTimeout(stalledWrite);
    // What comes in meanwhile would count as a sign of life.
    if (request.complete) socket.pause();
    this.#unread.set(response, bytes);
    this.#load.unreadBytes += bytes;
    response.once('close', () => {
      this.#noLongerUnread(response);
      if (this.#of(socket).waiting.length === 0) socket.resume();
    });
    for (const oldest of this.#unread.keys()) {
      if (this.#load.unreadBytes <= mostUnread) break;
      this.#noLongerUnread(oldest);
      this.#cut(oldest.req.socket);
    }
  }

  #noLongerUnread(response: ServerResponse): void {
    this.#load.unreadBytes -= this.#unread.get(response) ?? 0;
    this.#unread.delete(response);
  }

  #of(socket: Socket): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const made = new Connection();
    this.#connections.set(socket, made);
    return made;
  }

  #nextAfter(connection: Connection): void {
    connection.current?.response.once('close', () => this.#next(connection));
  }

  #next(connection: Connection): void {
    const [next] = connection.waiting;
    if (!next) return;
    if (next.request.socket.destroyed) {
      this.#forget(connection);
      return;
    }
    connection.waiting.shift();
    const bytes = bytesOf(next.request);
    connection.waitingBytes -= bytes;
    this.#waitingBytes -= bytes;
    this.#load.waiting -= 1;
    connection.current = next;
    if (connection.waiting.length > 0) this.#nextAfter(connection);
    else next.request.socket.resume();
    this.#respond(next.request, next.response, connection);
  }

  #cut(socket: Socket): void {
    this.#load.cut += 1;
    socket.destroy();
  }

  #forget(connection: Connection): void {
    this.#waitingBytes -= connection.waitingBytes;
    this.#load.waiting -= connection.waiting.length;
    connection.waitingBytes = 0;
    connection.waiting.length = 0;
  }
}

function isOver(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

function bytesOf({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, bytesOfRequest + url.length);
}
