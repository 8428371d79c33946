// Pipelined requests: answered one at a time and in order, and none after the announced end.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { Connections, createLoad } from '../../runtime/http/connections.ts';
import { call, type Json } from '../support/client.ts';
import { Connection, exchange, type RawAnswer, requestText } from '../support/raw-connection.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newTenant();
});

const accounts = '/v1/objects/accounts/records';
const health = (): Buffer => requestText('GET', '/v1/health');
const parseError = ({ body }: RawAnswer): Json => JSON.parse(body).error;

/** Returns a request that creates an account. */
function create(name: string, headers: Record<string, string> = {}): Buffer {
  const all = { 'x-api-key': tenant.key, 'content-type': 'application/json', 'idempotency-key': randomUUID() };
  return requestText('POST', accounts, { ...all, ...headers }, JSON.stringify({ name }));
}

/** Returns the names for which an account exists. */
async function created(names: readonly string[]): Promise<string[]> {
  const filter = JSON.stringify({ field: 'name', op: 'in', value: names });
  const { body } = await call('GET', accounts, { key: tenant.key, query: { filter, limit: 100 } });
  return body.data.records.map((record: Json) => record.name).toSorted();
}

/** Returns all responses until the server closes the connection. */
async function readAnswers(connection: Connection): Promise<RawAnswer[]> {
  const answers: RawAnswer[] = [];
  for (;;) {
    try {
      answers.push(await connection.answer());
    } catch {
      return answers;
    }
  }
}

describe('invalid HTTP after a valid request', () => {
  test('answers a request before invalid HTTP, then closes the connection', async () => {
    for (let round = 0; round < 10; round += 1) {
      const name = `Before junk ${randomUUID()}`;
      const connection = new Connection();
      const answers = await readAnswers(connection.send(Buffer.concat([create(name), Buffer.from('junk\r\n\r\n')])));
      expect(answers.map(({ status }) => status)).toEqual([201]);
      expect(answers[0]?.headers.get('connection')).toBe('close');
      expect(await created([name])).toEqual([name]);
    }
  });

  test('answers all pipelined requests before invalid HTTP', async () => {
    const connection = new Connection();
    const junk = Buffer.from('GET / HTTP/1.1\r\nBad Header: x\r\n\r\n');
    const answers = await readAnswers(
      connection.send(Buffer.concat([health(), create('Before'), health(), junk, health()])),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 201, 200]);
    expect(answers.map(({ headers }) => headers.get('connection'))).toEqual(['keep-alive', 'keep-alive', 'close']);
  });

  test('rejects invalid HTTP after the previous request was answered', async () => {
    const connection = new Connection();
    expect((await connection.send(health()).answer()).status).toBe(200);
    const refusal = await connection.send('junk\r\n\r\n').answer();
    expect([refusal.status, parseError(refusal).details]).toEqual([400, { reason: 'malformed_request' }]);
    await connection.closed;
  });

  test('rejects a request with invalid HTTP in its body, and does not perform it', async () => {
    const name = `Broken ${randomUUID()}`;
    const headers = { 'x-api-key': tenant.key, 'content-type': 'application/json', 'idempotency-key': randomUUID() };
    const head = requestText('POST', accounts, { ...headers, 'transfer-encoding': 'chunked' });
    const body = JSON.stringify({ name });
    for (const parts of [
      [Buffer.concat([head, Buffer.from(`${body.length.toString(16)}\r\n${body}\r\nno size\r\n`)])],
      [head, `${body.length.toString(16)}\r\n${body}\r\n`, 'no size\r\n'],
    ]) {
      const connection = new Connection();
      for (const part of parts) {
        connection.send(part);
        await sleep(50);
      }
      const answers = await readAnswers(connection);
      expect(answers.map((answer) => [answer.status, parseError(answer).details])).toEqual([
        [400, { reason: 'malformed_request' }],
      ]);
    }
    expect(await created([name])).toEqual([]);
  });
});

describe('the announced end of a connection', () => {
  test('performs no request after the client announced the end of the connection', async () => {
    const names = Array.from({ length: 3 }, () => `After the end ${randomUUID()}`) as [string, string, string];
    for (const version of ['1.1', '1.0']) {
      const first = create(names[0], { connection: 'close' }).toString().replace('HTTP/1.1', `HTTP/${version}`);
      const connection = new Connection();
      const rest = [create(names[1]), create(names[2])];
      const answers = await readAnswers(connection.send(Buffer.concat([Buffer.from(first), ...rest])));
      expect(answers.map(({ status }) => status)).toEqual([201]);
    }
    expect(await created(names)).toEqual([names[0], names[0]]);
  });

  test('performs no request after the server announced the end of the connection', async () => {
    const name = `After the end ${randomUUID()}`;
    const connection = new Connection();
    const refused = 'GET /v1/health HTTP/1.1\r\n\r\n';
    const answers = await readAnswers(connection.send(Buffer.concat([Buffer.from(refused), create(name)])));
    expect(answers.map(({ status, headers }) => [status, headers.get('connection')])).toEqual([[400, 'close']]);
    expect(await created([name])).toEqual([]);
  });
});

describe('pipelined requests', () => {
  test('performs pipelined requests one after the other', async () => {
    const id = await call('POST', accounts, { key: tenant.key, body: { name: 'Turns' }, idempotencyKey: true });
    const path = `${accounts}/${id.body.data.record.id}`;
    const headers = { 'x-api-key': tenant.key, 'content-type': 'application/json' };
    const rename = (name: string) => requestText('PATCH', path, headers, JSON.stringify({ name }));
    const read = requestText('GET', path, { 'x-api-key': tenant.key });
    const connection = new Connection();
    const names = Array.from({ length: 8 }, (_, index) => `Turn ${index}`);
    connection.send(Buffer.concat(names.flatMap((name) => [rename(name), read])));
    for (const name of names)
      for (const answer of [await connection.answer(), await connection.answer()])
        expect(JSON.parse(answer.body).data.record.name).toBe(name);
    connection.close();
  });

  test('accepts a hundred waiting requests on one connection, and many more as they are answered', async () => {
    const connection = new Connection();
    connection.send(Buffer.concat(Array.from({ length: 101 }, health)));
    for (let index = 0; index < 101; index += 1) expect((await connection.answer()).status).toBe(200);
    for (let round = 0; round < 5; round += 1) {
      connection.send(Buffer.concat(Array.from({ length: 50 }, health)));
      for (let index = 0; index < 50; index += 1) expect((await connection.answer()).status).toBe(200);
    }
    connection.close();
  });

  test('closes a connection with too many waiting requests, and drops them', async () => {
    const connection = new Connection();
    const short = 'GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n';
    const answers = await readAnswers(connection.send(short.repeat(1000)));
    expect(answers.length).toBeLessThan(10);
    expect((await exchange(health())).status).toBe(200);
  });

  test('stops parsing requests beyond the limit', async () => {
    const connections = new Connections(() => undefined, createLoad());
    let read = 0;
    const server = createServer((request, response) => {
      read += 1;
      connections.take(request, response);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    const closed = once(socket, 'close');
    socket.resume().write('GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1000));
    await closed;
    server.close();
    // One in progress, a hundred that wait, and one too many.
    expect(read).toBe(102);
  });

  test('answers pipelined requests after responses of any size', async () => {
    const connection = new Connection();
    connection.send(
      Buffer.concat([...Array.from({ length: 5 }, () => requestText('GET', '/docs/redoc.js')), health()]),
    );
    connection.socket.pause();
    await sleep(500);
    connection.socket.resume();
    const statuses: number[] = [];
    for (let index = 0; index < 6; index += 1) statuses.push((await connection.answer()).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200]);
    expect((await connection.send(health()).answer()).status).toBe(200);
    connection.close();
  });
});

describe('a client that expects 100 Continue', () => {
  const expecting = (headers: Record<string, string>): Buffer =>
    requestText('POST', accounts, {
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
      expect: '100-continue',
      ...headers,
    });

  /** Returns all bytes up to the end of the first response. */
  async function receivedFor(request: Buffer): Promise<string> {
    const connection = new Connection();
    let received = '';
    connection.socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
    });
    await connection.send(request).answer();
    connection.close();
    return received;
  }

  test('sends 100 Continue if the request is valid so far, and reads the body', async () => {
    const body = JSON.stringify({ name: 'Expected' });
    const connection = new Connection();
    const invited = new Promise<string>((resolve) => {
      connection.socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    });
    connection.send(expecting({ 'x-api-key': tenant.key, 'content-length': String(body.length) }));
    expect(await invited).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    expect((await connection.send(body).answer()).status).toBe(201);
    expect((await connection.send(health()).answer()).status).toBe(200);
    connection.close();
  });

  test.each([
    ['a bad key', { 'x-api-key': 'x', 'content-length': '20' }, 401],
    ['a length of a gigabyte', { 'content-length': '1000000000' }, 400],
    ['a bad query', { 'content-length': '20', 'idempotency-key': 'x' }, 400],
  ])('rejects %s without sending 100 Continue, and closes the connection', async (_, headers, status) => {
    const received = await receivedFor(expecting({ 'x-api-key': tenant.key, ...headers }));
    expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(received).toContain('Connection: close');
  });
});

describe('requests for another protocol', () => {
  test('CONNECT is answered like any unknown method, and the connection is closed', async () => {
    for (const [target, status] of [
      ['crm.example:443', 404],
      ['/v1/health', 405],
    ] as const) {
      const connection = new Connection();
      const answer = await connection.send(`CONNECT ${target} HTTP/1.1\r\nHost: crm.example:443\r\n\r\n`).answer();
      expect([target, answer.status, answer.headers.get('connection')]).toEqual([target, status, 'close']);
      await connection.closed;
    }
  });

  test('CONNECT is answered after the requests before it', async () => {
    const connection = new Connection();
    const tunnel = Buffer.from('CONNECT crm.example:443 HTTP/1.1\r\nHost: crm.example:443\r\n\r\n');
    const answers = await readAnswers(connection.send(Buffer.concat([create('Before a tunnel'), health(), tunnel])));
    expect(answers.map(({ status }) => status)).toEqual([201, 200, 404]);
  });

  test('an Upgrade is ignored, and the request is answered', async () => {
    for (const protocol of ['websocket', 'h2c']) {
      const connection = new Connection();
      const asking = requestText('GET', '/v1/health', { Connection: 'Upgrade', Upgrade: protocol });
      expect((await connection.send(asking).answer()).status).toBe(200);
      expect((await connection.send(health()).answer()).status).toBe(200);
      connection.close();
    }
  });

  test('the preface of HTTP/2 is rejected', async () => {
    const connection = new Connection();
    expect((await connection.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n').answer()).status).toBe(400);
    await connection.closed;
  });
});
