// Request bodies that arrive whole, in pieces, chunked, pipelined, too large, or not at all.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { call } from '../support/client.ts';
import { platformKeys } from '../support/tenants.ts';

/** Returns the next of several keys, since a key may make ten calls per minute. */
let nextKey: () => string;
beforeAll(async () => {
  nextKey = await platformKeys();
});

const body = (email: string) => JSON.stringify({ email });
const head = (length: string) =>
  `POST /v1/check-email HTTP/1.1\r\nHost: localhost\r\nx-api-key: ${nextKey()}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
const whole = (email: string) => head(`Content-Length: ${Buffer.byteLength(body(email))}`) + body(email);

/**
 * Writes the parts with a pause between them. Returns the bytes received until the server closes or
 * the responses are complete.
 */
async function exchange(parts: (string | Buffer)[], answers: number): Promise<string> {
  const { hostname, port } = new URL(inject('baseUrl'));
  const socket: Socket = connect(Number(port), hostname);
  socket.setNoDelay(true);
  let received = '';
  const done = new Promise<void>((resolve, reject) => {
    socket.on('data', (chunk) => {
      received += chunk.toString();
      if (received.split('HTTP/1.1 ').length - 1 >= answers && received.endsWith('}')) resolve();
    });
    socket.on('close', () => resolve());
    socket.on('error', reject);
  });
  for (const part of parts) {
    socket.write(part);
    await sleep(10);
  }
  await done;
  socket.destroy();
  return received;
}

const statuses = (received: string) => [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]);

describe('a body is read completely', () => {
  test('reads a body in the packet of its head, and keeps the connection', async () => {
    const received = await exchange([whole('whole@example.com')], 1);
    expect(statuses(received)).toEqual(['200']);
    expect(received).toContain('"whole@example.com"');
    expect(received).not.toMatch(/connection: close/i);
  });

  test('reads a body in pieces, cut inside a character', async () => {
    const bytes = Buffer.from(JSON.stringify({ email: 'pièces@example.com' }));
    const cut = bytes.indexOf(0xc3) + 1;
    const parts = [head(`Content-Length: ${bytes.length}`), bytes.subarray(0, cut), bytes.subarray(cut)];
    const received = await exchange(parts, 1);
    expect(statuses(received)).toEqual(['400']);
    expect(received).toContain('email must be an email address');
  });

  test('reads a chunked body', async () => {
    const text = body('chunked@example.com');
    const chunks = `5\r\n${text.slice(0, 5)}\r\n${(text.length - 5).toString(16)}\r\n${text.slice(5)}\r\n0\r\n\r\n`;
    for (const parts of [[head('Transfer-Encoding: chunked') + chunks], [head('Transfer-Encoding: chunked'), chunks]]) {
      const received = await exchange(parts, 1);
      expect(statuses(received)).toEqual(['200']);
      expect(received).toContain('"chunked@example.com"');
    }
  });

  test('reads the bodies of pipelined requests, and answers them in turn', async () => {
    const emails = Array.from({ length: 5 }, (_, index) => `turn-${index}@example.com`);
    const received = await exchange([emails.map(whole).join('')], 5);
    expect(statuses(received)).toEqual(['200', '200', '200', '200', '200']);
    expect([...received.matchAll(/"email":"(turn-\d)/g)].map((match) => match[1])).toEqual(
      emails.map((email) => email.slice(0, 6)),
    );
  });
});

describe('a body is rejected', () => {
  test.each([
    ['declared', (filler: string) => [head(`Content-Length: ${filler.length}`) + filler]],
    [
      'chunked',
      (filler: string) => [
        head('Transfer-Encoding: chunked'),
        `${filler.length.toString(16)}\r\n${filler}\r\n0\r\n\r\n`,
      ],
    ],
  ])('rejects a body above 100 KB, %s', async (_kind, parts) => {
    const received = await exchange(parts(body('a'.repeat(102_400))), 1);
    expect(statuses(received)).toEqual(['400']);
    expect(received).toContain('"body_too_large"');
  });

  test.each([
    ['a NUL character in a value', '{"email":"a\\u0000@example.com"}', 400, 'email', 'INVALID_FORMAT'],
    ['half of a surrogate pair in a value', '{"email":"a\\uD800@example.com"}', 400, 'email', 'INVALID_FORMAT'],
    ['a number that is none', '{"email":1e999}', 400, 'email', 'OUT_OF_RANGE'],
    ['a NUL character in a name', '{"extra":[{"b\\u0000":1}]}', 422, 'extra[0].b\0', 'UNKNOWN_FIELD'],
    ['the name __proto__', '{"__proto__":{"email":"a@example.com"}}', 422, '__proto__', 'UNKNOWN_FIELD'],
    ['the name __proto__ in disguise', '{"\\u005f_proto__":{}}', 422, '__proto__', 'UNKNOWN_FIELD'],
  ])('rejects a body with %s', async (_what, rawBody, wanted, field, code) => {
    const { status, body: answer } = await call('POST', '/v1/check-email', { key: nextKey(), rawBody });
    expect(status).toBe(wanted);
    expect(answer.error.details.fields).toContainEqual(expect.objectContaining({ field, code }));
  });

  test.each([
    ['nesting_too_deep', '{"a":{"b":{"c":{"d":{"e":{}}}}}}'],
    ['nesting_too_deep', '{"a":[[[[[[]]]]]]}'],
    ['too_many_keys', JSON.stringify(Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`k${index}`, 1])))],
    ['malformed_json', '{"email":'],
  ])('rejects a body with the reason %s', async (reason, rawBody) => {
    const { status, body: answer } = await call('POST', '/v1/check-email', { key: nextKey(), rawBody });
    expect(status).toBe(400);
    expect(answer.error.details).toEqual({ reason });
  });

  test('keeps serving after clients disconnect during their bodies', async () => {
    const { hostname, port } = new URL(inject('baseUrl'));
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const socket = connect(Number(port), hostname);
        socket.on('error', () => undefined);
        socket.write(`${head('Content-Length: 100')}{"email":`);
        await sleep(index);
        socket.destroy();
      }),
    );
    expect((await call('GET', '/v1/health')).status).toBe(200);
  });
});
