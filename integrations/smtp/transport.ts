// Opens the connection to the mail server.
import type { Transporter } from 'nodemailer';
import type { MailServer } from '../../runtime/config.ts';

/**
 * Creates a transport. It connects when there is something to send; `close` ends the connections.
 */
export async function openMailTransport(server: MailServer): Promise<Transporter> {
  const { host, port, secure, user, password, verify } = server;
  // Loaded on demand, so that servers without a mail server start faster and use less memory.
  const { default: nodemailer } = await import('nodemailer');
  return nodemailer.createTransport({
    host,
    port,
    secure,
    // Credentials are only sent encrypted. Without TLS, the server must offer STARTTLS.
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' }, requireTLS: !secure }),
    tls: { rejectUnauthorized: verify },
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
    // Content comes only from templates and drafts.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/**
 * Returns the Message-ID. It is the same for every attempt, so that receivers can detect
 * duplicates.
 * @param from the sender address
 */
export const buildMessageId = (id: string, from: string): string => `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`;
