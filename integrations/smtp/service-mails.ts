// Sends mails of the service itself through the mail server.
import type { Transporter } from 'nodemailer';
import { MailFault, type MailTransport } from '../../domain/messaging/mails.ts';
import { messageIdOf } from './transport.ts';

/** @param from the address that mails come from */
export function smtpMails(transport: Transporter, from: string): MailTransport {
  return {
    async send({ id, recipient, subject, text, invitation }) {
      try {
        await transport.sendMail({
          from,
          to: { name: '', address: recipient },
          subject,
          text,
          ...(invitation && { icalEvent: invitation }),
          messageId: messageIdOf(id, from),
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
      } catch (error) {
        throw faultOf(error as Error);
      }
    },
  };
}

/** The server's own words may name the recipient; its codes do not. */
function faultOf(error: Error): MailFault {
  const { code, responseCode } = error as { code?: string; responseCode?: number };
  // A server that rejects our credentials, or what we are, may be set right; one that rejects the mail itself means it.
  const isFinal = responseCode !== undefined && responseCode >= 500 && (code === 'EENVELOPE' || code === 'EMESSAGE');
  return new MailFault(isFinal, code, responseCode);
}
