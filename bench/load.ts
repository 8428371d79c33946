// The load: connections that each send a request as soon as the previous response is complete.
// Leaner than general tools, so that on two cores the server is what is measured.
import { connect, type Socket } from 'node:net';

export interface Load {
  port: number;
  connections: number;
  milliseconds: number;
  /** Maximum number of requests, approximately. */
  most?: number;
  /** Requests per second of all connections together; undefined: unlimited. */
  perSecond?: number;
  /** Accepts error responses too. */
  anyAnswer?: boolean;
  /** Called with each complete response. */
  seen?: (answer: Buffer) => void;
  /** Returns the bytes of the next request; called for every request. */
  next: () => Buffer;
}

export interface LoadResult {
  requests: number;
  milliseconds: number;
  perSecond: number;
  /**
   * Milliseconds from sending a request's first byte to reading its response's last byte, in
   * ascending order.
   */
  latencies: readonly number[];
  p50: number;
  p99: number;
}

/** Thrown if a side responds with an error: measuring errors is useless. */
class WrongAnswer extends Error {}

/** Returns an HTTP/1.1 request as bytes. */
export function request(method: string, path: string, headers: Record<string, string>, body = ''): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1'];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== '') lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

/**
 * Loads one server for a time.
 * @throws WrongAnswer at the first response that is not a 2xx
 */
export async function load(options: Load): Promise<LoadResult> {
  const latencies: number[] = [];
  const start = performance.now();
  const end = start + options.milliseconds;
  await Promise.all(Array.from({ length: options.connections }, () => one(options, end, latencies)));
  const milliseconds = performance.now() - start;
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? 0;
  return {
    requests: latencies.length,
    milliseconds,
    perSecond: (latencies.length / milliseconds) * 1000,
    latencies,
    p50: at(0.5),
    p99: at(0.99),
  };
}

/** Runs one connection until the time is over. */
function one(options: Load, end: number, latencies: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true });
    const interval = options.perSecond === undefined ? 0 : (1000 * options.connections) / options.perSecond;
    let sent = 0;
    const send = (): void => {
      sent = performance.now();
      socket.write(options.next());
    };
    socket.on('connect', send);
    readAnswers(socket, (answer) => {
      // '2' as the first digit of the status; with any other, the measurement is invalid.
      if (answer[9] !== 50 && !options.anyAnswer) {
        reject(new WrongAnswer(answer.toString('latin1').slice(0, 600)));
        socket.destroy();
        return;
      }
      const now = performance.now();
      latencies.push(now - sent);
      options.seen?.(answer);
      if (now >= end || latencies.length >= (options.most ?? Number.POSITIVE_INFINITY)) socket.end(resolve);
      else if (interval === 0) send();
      else setTimeout(send, Math.max(0, sent + interval - now));
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new WrongAnswer('the server closed the connection')));
  });
}

/** Sends one request on a new connection. */
export function sendOne(port: number, bytes: Buffer): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(bytes));
    readAnswers(socket, (answer) => {
      const text = answer.toString();
      resolve({ status: Number(text.slice(9, 12)), body: text.slice(text.indexOf('\r\n\r\n') + 4) });
      socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new WrongAnswer('the server closed the connection')));
  });
}

/** Calls back with the bytes of each complete response. */
function readAnswers(socket: Socket, onAnswer: (answer: Buffer) => void): void {
  let rest: Buffer | undefined;
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest ? Buffer.concat([rest, chunk]) : chunk;
    const complete = bytes.length >= answerSize(bytes);
    rest = complete ? undefined : bytes;
    if (complete) onAnswer(bytes);
  });
}

/**
 * Returns the size of the response that starts with these bytes; infinite until its head is
 * complete.
 */
function answerSize(bytes: Buffer): number {
  const head = bytes.indexOf('\r\n\r\n');
  if (head === -1) return Number.POSITIVE_INFINITY;
  const length = /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, head))?.[1];
  return length === undefined ? Number.POSITIVE_INFINITY : head + 4 + Number(length);
}
