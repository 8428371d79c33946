// A real SMTP server on a free port, which notes what it is told and refuses what it is asked to.
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface ReceivedMail {
  recipients: string[];
  /** The message as it came over the wire. */
  raw: string;
  /** True when it came under TLS. */
  isSecure: boolean;
  user: string | undefined;
}

export interface TestSmtp {
  port: number;
  received: ReceivedMail[];
  /** Recipients that were named, refused ones included. */
  attempts: string[];
  /** Credentials that were told. */
  credentials: { user: string; password: string }[];
  /** The status that recipients are refused with while it is set. */
  refusal: number | undefined;
  /** What it says beside the status. */
  words: string;
  /** Asked before each answer; after true nothing more is said on the connection. */
  fallsSilent: (before: 'recipient' | 'message') => boolean;
  stop(): Promise<void>;
}

/** @param options of the library; by default it asks for no credentials and offers no TLS */
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
  // A client that refuses our certificate is part of what is tried.
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
