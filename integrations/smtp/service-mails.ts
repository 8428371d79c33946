// Sends mails of the service itself through the mail server.
import type { Transporter } from 'nodemailer';
import { MailFault, type MailTransport } from '../../domain/messaging/mails.ts';
import { buildMessageId } from './transport.ts';

/** @param from the sender address */
export function createSmtpMails(transport: Transporter, from: string): MailTransport {
  return {
    async send({ id, recipient, subject, text, invitation }) {
      try {
        await transport.sendMail({
          from,
          to: { name: '', address: recipient },
          subject,
          text,
          ...(invitation && { icalEvent: invitation }),
          messageId: buildMessageId(id, from),
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
      } catch (error) {
        throw toFault(error as Error);
      }
    },
  };
}

/** Uses only codes in errors, because the server's message may contain the recipient. */
function toFault(error: Error): MailFault {
  const { code, responseCode } = error as { code?: string; responseCode?: number };
  // Only rejections of the envelope or the message are final. Rejected credentials can be fixed.
  const isFinal = responseCode !== undefined && responseCode >= 500 && (code === 'EENVELOPE' || code === 'EMESSAGE');
  return new MailFault(isFinal, code, responseCode);
}
