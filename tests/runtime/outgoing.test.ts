// The outbound client: no connection to a non-public address, observed at the sockets.
import { execFile } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer as createNetServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { isGlobalUnicast } from '../../runtime/outbound/addresses.ts';
import { OutgoingClient, type OutgoingOptions, type OutgoingRequest } from '../../runtime/outbound/client.ts';
import { answering, Receiver } from '../support/receivers.ts';
import { testCertificate, testKey } from '../support/tls.ts';

/** All client sockets that this process opened. */
const opened: Socket[] = [];
const note = (message: unknown): void => void opened.push((message as { socket: Socket }).socket);

let receiver: Receiver;

beforeAll(async () => {
  receiver = await Receiver.start();
  subscribe('net.client.socket', note);
});
afterEach(() => {
  opened.length = 0;
});
afterAll(async () => {
  unsubscribe('net.client.socket', note);
  await receiver.stop();
});

const send = (url: string, options: Partial<OutgoingOptions> = {}, more: Partial<OutgoingRequest> = {}) =>
  new OutgoingClient({ privateAddresses: 'refused', ...options }).send({
    method: 'POST',
    url,
    headers: {},
    body: '{}',
    testMode: false,
    mostBytes: 1000,
    ...more,
  });
const catchFault = (sent: Promise<unknown>): Promise<string> =>
  sent.then(
    () => 'none',
    (error) => error.fault,
  );
const toItself = async (): Promise<string[]> => ['127.0.0.1'];

/** By kind. All lead to this machine, to a private network, or nowhere. */
const privateAddresses = {
  IPv4: [
    '0.0.0.0',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '192.0.0.1',
    '192.0.2.1',
    '192.168.0.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
  ],
  IPv6: [
    '::',
    '::1',
    'fc00::1',
    'fd12::1',
    'fe80::1',
    'ff02::1',
    '100::1',
    '2001:db8::1',
    '3fff::1',
    '5f00::1',
    '4000::1',
    'fec0::1',
  ],
  'mapped or translated': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::808:808',
    '64:ff9b:1::7f00:1',
    '2002:7f00:1::',
    '2002:808:808::',
    '2001:0:7f00:1::',
    '2001::1',
  ],
};
/** Notations that the URL parser reads as this machine. */
const disguised = [
  '2130706433',
  '0x7f000001',
  '017700000001',
  '127.1',
  '127.0.1',
  '0177.0.0.1',
  '0x7f.1',
  '127.0.0.1.',
  '①②⑦.0.0.1',
  '127。0。0。1',
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  '%31%32%37.0.0.1',
];

describe('addresses that must not be called', () => {
  test.each(Object.entries(privateAddresses))('opens no connection to an address that is %s', async (_, addresses) => {
    for (const address of addresses) {
      expect([address, isGlobalUnicast(address)]).toEqual([address, false]);
      const host = address.includes(':') ? `[${address}]` : address;
      expect([address, await catchFault(send(`https://${host}:8443/`))]).toEqual([address, 'blocked_address']);
      // A name that resolves to it, alone or next to a public address.
      for (const found of [[address], ['8.8.8.8', address]])
        expect(await catchFault(send('https://hooks.test/', { resolve: async () => found }))).toBe('blocked_address');
    }
    expect(opened).toEqual([]);
  });

  test.each(disguised)('opens no connection to this machine, written as %s', async (host) => {
    expect(await catchFault(send(`https://${host}:${new URL(receiver.url).port}/`))).toBe('blocked_address');
    expect(opened).toEqual([]);
  });

  test('opens no connection to a name that no longer resolves to a public address', async () => {
    const answers = [['8.8.8.8'], ['127.0.0.1']];
    const resolve = async (): Promise<string[]> => answers.shift() ?? [];
    const client = new OutgoingClient({ privateAddresses: 'refused', resolve });
    const url = `https://hooks.test:${new URL(receiver.url).port}/`;
    expect(await client.findUrlRejection(url, false)).toBeUndefined();
    const request = { method: 'POST', url, headers: {}, testMode: false, mostBytes: 10 } as const;
    expect(await catchFault(client.send(request))).toBe('blocked_address');
    expect(opened).toEqual([]);
  });

  test('connects only to the checked address, since each request resolves the name once', async () => {
    let asked = 0;
    const resolve = async (): Promise<string[]> => {
      asked += 1;
      return asked === 1 ? ['203.0.114.1'] : ['127.0.0.1'];
    };
    await catchFault(send('https://hooks.test/', { resolve }, { within: 300 }));
    expect(asked).toBe(1);
    expect(opened.every((socket) => socket.remoteAddress !== '127.0.0.1')).toBe(true);
  });

  test.each(['http://8.8.8.8/', 'ftp://8.8.8.8/', 'https://u:p@8.8.8.8/', 'https://8.8.8.8:25/', 'file:///etc/passwd'])(
    'opens no connection to %s',
    async (url) => {
      expect(await catchFault(send(url))).toBe('blocked_address');
      expect(opened).toEqual([]);
    },
  );

  test('opens no connection to this machine in live mode, even if test mode may', async () => {
    expect(await catchFault(send(receiver.url, { privateAddresses: 'in_test_mode' }))).toBe('blocked_address');
    expect(await catchFault(send(receiver.url, {}, { testMode: true }))).toBe('blocked_address');
    expect(opened).toEqual([]);
    expect((await send(receiver.url, { privateAddresses: 'in_test_mode' }, { testMode: true })).status).toBe(200);
    expect(opened).toHaveLength(1);
  });
});

test.each(['8.8.8.8', '1.1.1.1', '93.184.215.14', '172.15.0.1', '172.32.0.1', '2606:4700::1111', '2a00:1450::1'])(
  '%s can be called, being a public address',
  (address) => {
    expect(isGlobalUnicast(address)).toBe(true);
  },
);

describe('a response', () => {
  const allowed = { privateAddresses: 'in_test_mode' } as const;
  const inTest = { testMode: true };

  test('returns a redirect without following it', async () => {
    const target = await Receiver.start();
    const redirecting = await Receiver.start(answering(307, { location: target.url }));
    expect(await send(redirecting.url, allowed, inTest)).toMatchObject({ status: 307 });
    expect(target.requests).toEqual([]);
    await Promise.all([target.stop(), redirecting.stop()]);
  });

  test('reads a response up to a limit', async () => {
    const long = await Receiver.start((_, response) => void response.end('x'.repeat(5000)));
    const answer = await send(long.url, allowed, { ...inTest, mostBytes: 100 });
    expect([answer.status, answer.body.length, answer.isWhole]).toEqual([200, 100, false]);
    const whole = await send(long.url, allowed, { ...inTest, mostBytes: 5000 });
    expect([whole.body.length, whole.isWhole]).toEqual([5000, true]);
    await long.stop();
  });

  test('fails if the response headers exceed 16 KB or the response is not HTTP', async () => {
    const wide = await Receiver.start(answering(200, { 'x-wide': 'x'.repeat(20_000) }));
    expect(await catchFault(send(wide.url, allowed, inTest))).toBe('http_error');
    await wide.stop();
    const odd = await listening(createNetServer((socket) => socket.end('SSH-2.0-OpenSSH\r\n')));
    expect(await catchFault(send(`http://127.0.0.1:${odd.port}/`, allowed, inTest))).toBe('http_error');
    await odd.close();
  });

  test('times out if the response or its body does not arrive', async () => {
    const silent = await listening(createNetServer(() => undefined));
    const start = performance.now();
    const url = `http://127.0.0.1:${silent.port}/`;
    expect(await catchFault(send(url, allowed, { ...inTest, within: 300 }))).toBe('timeout');
    // The same for a TLS handshake without a response.
    const secure = `https://127.0.0.1:${silent.port}/`;
    expect(await catchFault(send(secure, allowed, { ...inTest, within: 300 }))).toBe('timeout');
    const slow = await Receiver.start((_, response) => void response.write('beginning'));
    const answer = await send(slow.url, allowed, { ...inTest, within: 300 });
    expect([answer.status, answer.body.toString(), answer.isWhole]).toEqual([200, 'beginning', false]);
    expect(performance.now() - start).toBeLessThan(60_000);
    await Promise.all([silent.close(), slow.stop()]);
  });

  test('calls the receiver directly, regardless of proxies in the environment', async () => {
    const proxy = await Receiver.start();
    Object.assign(process.env, { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.url, http_proxy: proxy.url });
    try {
      await send(receiver.url, allowed, inTest);
      expect(proxy.requests).toEqual([]);
    } finally {
      for (const name of ['NODE_USE_ENV_PROXY', 'HTTP_PROXY', 'http_proxy']) delete process.env[name];
      await proxy.stop();
    }
  });
});

describe('a call that fails', () => {
  const free = { privateAddresses: 'allowed' } as const;
  /** Connecting to it fails in the same turn of the event loop, with or without routes. */
  const broadcast = '255.255.255.255';

  test.each([
    ['https', [broadcast]],
    ['http', [broadcast]],
    ['https', [broadcast, broadcast]],
    ['http', [broadcast, broadcast]],
  ])('reports a connection error if connecting fails immediately, over %s to %s', async (scheme, found) => {
    const resolve = async (): Promise<string[]> => found;
    expect(await catchFault(send(`${scheme}://hooks.test:8443/`, { ...free, resolve }))).toBe('connect');
    await turnsOfTheLoop();
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('no name service');
      },
    ],
    ['rejects', () => Promise.reject(new Error('no name service'))],
    ['finds no address', () => Promise.resolve([])],
    ['finds something that is none', () => Promise.resolve(['nowhere'])],
  ])('reports an OutgoingError if the look-up %s', async (_, resolve) => {
    const fault = await catchFault(send('https://hooks.test/', { ...free, resolve }));
    expect(['dns', 'connect']).toContain(fault);
    await turnsOfTheLoop();
  });

  test('leaves no timer if a call fails before it is sent', async () => {
    // In a separate process, in which only this call has timers. A leftover timer would show for
    // three seconds.
    const program = `
      import { OutgoingClient } from './runtime/outbound/client.ts';
      const request = { method: 'POST', url: '${receiver.url}', headers: { 'x-name': 'one\\ntwo' }, body: '{}', testMode: false, mostBytes: 1 };
      const error = await new OutgoingClient({ privateAddresses: 'allowed' }).send(request).catch((failure) => failure);
      const ended = performance.now() + 2000;
      while (process.getActiveResourcesInfo().includes('Timeout') && performance.now() < ended) await new Promise(setImmediate);
      console.log(error.fault, process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length);
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
    expect(stdout.trim()).toBe('http_error 0');
  });

  test.each(['http', 'https'])(
    'reports an error or a response if the receiver over %s resets at any time',
    async (scheme) => {
      const certificate = { key: testKey, cert: testCertificate };
      const beginnings = [
        '',
        'HTTP/1.1 ',
        'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n',
        'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345',
      ];
      const moments = ['connection', 'data'] as const;
      for (const beginning of [
        ...beginnings,
        'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
      ])
        for (const moment of moments)
          for (const end of ['reset', 'end', 'none']) {
            const act = (socket: Socket): void => {
              socket.write(beginning);
              if (end === 'reset')
                setImmediate(() => (scheme === 'https' ? socket.destroy() : socket.resetAndDestroy()));
              if (end === 'end') socket.end();
            };
            const take = (socket: Socket): void => {
              if (moment === 'connection') act(socket);
              else socket.once('data', () => act(socket));
            };
            const resetting = await listening(
              scheme === 'https' ? createTlsServer(certificate, take) : createNetServer(take),
            );
            const options = { ...free, resolve: toItself, ca: testCertificate };
            const sent = send(`${scheme}://hooks.test:${resetting.port}/`, options, { within: 150 });
            const outcome = await sent.then(
              ({ status }) => status,
              (error) => error.fault ?? error,
            );
            expect([beginning, moment, end, outcome].join()).toMatch(/,(?:200|http_error|timeout|tls|connect)$/);
            await resetting.close();
          }
      await turnsOfTheLoop();
    },
  );

  test('does not time out if the response arrived while the event loop was blocked', async () => {
    const prompt = await Receiver.start((_, response) => {
      response.end('ok');
      // Receiver and caller share this process, so the response arrives before the caller can read
      // it.
      block(600);
    });
    expect((await send(prompt.url, free, { within: 200 })).status).toBe(200);
    await prompt.stop();
  });
});

/** Lets errors without a listener surface, which would end this process. */
async function turnsOfTheLoop(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

function block(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

describe('over TLS', () => {
  let server: { port: number; close(): Promise<void> };
  let names: (string | undefined)[];

  beforeAll(async () => {
    names = [];
    const secure = createSecureServer({ key: testKey, cert: testCertificate }, (_, response) => response.end('ok'));
    secure.on('secureConnection', (socket) => names.push(socket.servername || undefined));
    server = await listening(secure);
  });
  afterAll(() => server.close());

  const ask = (name: string, ca?: string) =>
    send(
      `https://${name}:${server.port}/`,
      { privateAddresses: 'in_test_mode', resolve: toItself, ...(ca ? { ca } : {}) },
      { testMode: true },
    );

  test('the certificate must match the requested name, not the address', async () => {
    expect((await ask('hooks.test', testCertificate)).status).toBe(200);
    expect(names.at(-1)).toBe('hooks.test');
    expect(await catchFault(ask('other.test', testCertificate))).toBe('tls');
    expect(await catchFault(ask('hooks.test'))).toBe('tls');
  });

  test('a receiver without TLS is distinguished from one that refuses connections', async () => {
    const plain = `https://127.0.0.1:${new URL(receiver.url).port}/`;
    expect(await catchFault(send(plain, { privateAddresses: 'in_test_mode' }, { testMode: true }))).toBe('tls');
    const gone = await listening(createNetServer());
    await gone.close();
    const closed = `https://127.0.0.1:${gone.port}/`;
    expect(await catchFault(send(closed, { privateAddresses: 'in_test_mode' }, { testMode: true }))).toBe('connect');
  });

  test('an unknown name is a DNS error', async () => {
    expect(await catchFault(send('https://hooks.test/', { resolve: async () => [] }))).toBe('dns');
  });
});

/** Starts a server on a free port of this machine. */
async function listening(server: Server): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
