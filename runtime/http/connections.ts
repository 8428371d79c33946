// Answers pipelined requests of each connection in order, and bounds what clients leave in memory.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiError } from '../errors.ts';
import { breakBody } from './body.ts';
import { dropRest, http } from './node-http.ts';
import { unreadableRequest } from './request-head.ts';

/** Maximum number of requests that wait on one connection for earlier responses. */
const maxWaitingRequests = 100;
/** Maximum bytes of memory for all waiting requests. */
const maxWaitingBytes = 8 * 1024 * 1024;
/** Bytes of memory that a request takes in addition to its URL and headers, as measured. */
const requestOverheadBytes = 3000;
/** Maximum bytes of responses that all clients together may leave unread. */
const maxUnreadBytes = 32 * 1024 * 1024;
/**
 * Milliseconds without progress after which a client that does not read its response is
 * disconnected. It takes one or two such periods.
 */
export const stalledWriteMs = 6500;

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

/**
 * Requests and responses that clients make a process hold, and the connections closed because of
 * that.
 */
export interface Load {
  /** Requests in progress. */
  requests: number;
  /** Requests that wait for earlier responses on their connection. */
  waiting: number;
  /** Bytes of responses that clients have not read. */
  unreadBytes: number;
  /** Connections closed since the start because they held too much. */
  cut: number;
}

export const createLoad = (): Load => ({ requests: 0, waiting: 0, unreadBytes: 0, cut: 0 });

/** Answers one request. The response may announce the end of the connection. */
export type Respond = (request: IncomingMessage, response: ServerResponse, connection: Connection) => void;

/** The state of one connection. */
export class Connection {
  /** The request that was started last, answered or not. */
  current: Exchange | undefined;
  /** Requests that arrived before the responses to earlier ones were sent. */
  readonly waiting: Exchange[] = [];
  waitingBytes = 0;
  /**
   * True after the end of the connection was announced, or after invalid HTTP arrived. Later input
   * is ignored.
   */
  isEnding = false;

  /** True while a request is unanswered or its response is unread. */
  get isBusy(): boolean {
    return this.waiting.length > 0 || (this.current !== undefined && !isOver(this.current.response));
  }

  /** The request that arrived last. */
  get last(): Exchange | undefined {
    return this.waiting.at(-1) ?? this.current;
  }

  /** True if the response to the current request must announce the end of the connection. */
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
  /** Responses that are not yet written to the socket, oldest first, with their bytes. */
  readonly #unread = new Map<ServerResponse, number>();

  constructor(respond: Respond, load: Load) {
    this.#respond = respond;
    this.#load = load;
  }

  /** Accepts a request, and answers it after those before it. */
  take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const connection = this.#getConnection(socket);
    if (connection.isEnding) return;
    if (!connection.isBusy) {
      connection.current = { request, response };
      this.#respond(request, response, connection);
      return;
    }
    const bytes = measureBytes(request);
    if (connection.waiting.length === maxWaitingRequests || this.#waitingBytes + bytes > maxWaitingBytes) {
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
    // Reads nothing more until all of these are answered.
    socket.pause();
    this.#answerNextAfter(connection);
  }

  /**
   * Accepts a CONNECT request, for which Node creates no response. It is answered like any other
   * method; then the connection ends.
   */
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
    const connection = this.#getConnection(socket);
    if (connection.isBusy) connection.last?.response.once('close', answer);
    else answer();
  }

  /**
   * Ends a connection on which unreadable input arrived. Complete requests are answered first. A
   * request whose body is cut short by the input fails with that error.
   * @param refuse sends the error if no request is in progress
   */
  refuse(socket: Socket, code: string | undefined, refuse: (error: ApiError) => void): void {
    const connection = this.#getConnection(socket);
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

  /** Makes the next response the last one. Requests behind it are dropped. */
  end(connection: Connection): void {
    connection.isEnding = true;
    this.#forget(connection);
  }

  /** Watches a response until the client has read it. */
  watch(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const bytes = response.writableLength;
    if (bytes === 0) return;
    // The rest is sent as the client reads. A client that keeps reading may take as long as it
    // needs.
    socket.setTimeout(stalledWriteMs);
    // Incoming data would reset the timeout.
    if (request.complete) socket.pause();
    this.#unread.set(response, bytes);
    this.#load.unreadBytes += bytes;
    response.once('close', () => {
      this.#forgetUnread(response);
      if (this.#getConnection(socket).waiting.length === 0) socket.resume();
    });
    for (const oldest of this.#unread.keys()) {
      if (this.#load.unreadBytes <= maxUnreadBytes) break;
      this.#forgetUnread(oldest);
      this.#cut(oldest.req.socket);
    }
  }

  #forgetUnread(response: ServerResponse): void {
    this.#load.unreadBytes -= this.#unread.get(response) ?? 0;
    this.#unread.delete(response);
  }

  #getConnection(socket: Socket): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const made = new Connection();
    this.#connections.set(socket, made);
    return made;
  }

  #answerNextAfter(connection: Connection): void {
    connection.current?.response.once('close', () => this.#answerNext(connection));
  }

  #answerNext(connection: Connection): void {
    const [next] = connection.waiting;
    if (!next) return;
    if (next.request.socket.destroyed) {
      this.#forget(connection);
      return;
    }
    connection.waiting.shift();
    const bytes = measureBytes(next.request);
    connection.waitingBytes -= bytes;
    this.#waitingBytes -= bytes;
    this.#load.waiting -= 1;
    connection.current = next;
    if (connection.waiting.length > 0) this.#answerNextAfter(connection);
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

function measureBytes({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, requestOverheadBytes + url.length);
}
