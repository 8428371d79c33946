// The way to the mail server: how it is opened, and what is told of a mail that it did not take.
import type { Transporter } from 'nodemailer';
import type { MailServer } from '../../runtime/config.ts';

/** Opens connections when there is something to send; close ends them. */
export async function openMailTransport(server: MailServer): Promise<Transporter> {
  const { host, port, secure, user, password, verify } = server;
  // Loaded where mails are sent: a server that keeps them starts sooner, and is smaller.
  const { default: nodemailer } = await import('nodemailer');
  return nodemailer.createTransport({
    host,
    port,
    secure,
    // Credentials do not travel in the clear: a server that offers no STARTTLS is not told them.
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' }, requireTLS: !secure }),
    tls: { rejectUnauthorized: verify },
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
    // What is sent comes from the templates and drafts alone.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** The same for every attempt, so that a mail that arrives twice can be told to be one. @param from the address that mails come from */
export const messageIdOf = (id: string, from: string): string => `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`;
