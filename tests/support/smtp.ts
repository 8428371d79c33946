// A real SMTP server on a free port that records messages and rejects them on command.
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface ReceivedMail {
  recipients: string[];
  /** The message as received. */
  raw: string;
  /** True if it was received over TLS. */
  isSecure: boolean;
  user: string | undefined;
}

export interface TestSmtp {
  port: number;
  received: ReceivedMail[];
  /** All named recipients, including rejected ones. */
  attempts: string[];
  /** The received credentials. */
  credentials: { user: string; password: string }[];
  /** The status that rejects recipients, while it is set. */
  refusal: number | undefined;
  /** The text after the status. */
  words: string;
  /** Called before each response. After true, the connection stays silent. */
  fallsSilent: (before: 'recipient' | 'message') => boolean;
  stop(): Promise<void>;
}

/**
 * @param options of the library. By default, the server requires no credentials and offers no TLS.
 */
export async function startSmtp(options: SMTPServerOptions = {}): Promise<TestSmtp> {
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onRcptTo({ address }, _session, done) {
      smtp.attempts.push(address);
      if (smtp.fallsSilent('recipient')) return;
      if (smtp.refusal === undefined) done();
      else done(Object.assign(new Error(`${smtp.words}, ${address}`), { responseCode: smtp.refusal }));
    },
    onAuth({ username, password }, _session, done) {
      smtp.credentials.push({ user: String(username), password: String(password) });
      done(null, { user: String(username) });
    },
    onData(stream, session, done) {
      let raw = '';
      stream.on('data', (chunk: Buffer) => {
        raw += chunk.toString();
      });
      stream.on('end', () => {
        smtp.received.push({
          recipients: session.envelope.rcptTo.map(({ address }) => address),
          raw,
          isSecure: session.secure,
          user: session.user as string | undefined,
        });
        if (!smtp.fallsSilent('message')) done();
      });
    },
    ...options,
  });
  // Some tests use a client that rejects this certificate.
  server.on('error', () => undefined);
  const smtp: TestSmtp = {
    port: 0,
    received: [],
    attempts: [],
    credentials: [],
    refusal: undefined,
    words: 'not now',
    fallsSilent: () => false,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  smtp.port = (server.server.address() as AddressInfo).port;
  return smtp;
}
