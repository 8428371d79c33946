// Emails: from the address of the service, with a link to say stop.
import type { Transporter } from 'nodemailer';
import { type OutgoingMessage, type Sender, SendingFault, textWithLink } from '../../domain/messaging/senders.ts';
import { messageIdOf } from './transport.ts';

/** @param from the address of the service, which its mail server sends from */
export function smtpSender(transport: Transporter, from: string): Sender {
  return {
    async send(message) {
      const messageId = messageIdOf(message.id, from);
      try {
        await transport.sendMail({
          messageId,
          from: { name: message.companyName, address: from },
          to: { name: '', address: message.recipient },
          ...(message.sender === null ? {} : { replyTo: { name: '', address: message.sender } }),
          subject: message.subject ?? '',
          text: textWithLink(message),
          ...(await htmlPart(message)),
          headers: stopHeaders(message),
        });
      } catch (error) {
        throw faultOf(error as SmtpError);
      }
      return messageId;
    },
  };
}

/** Beside the text, where it is noted what becomes of the email. */
async function htmlPart(message: OutgoingMessage): Promise<{ html?: string }> {
  if (!message.engagement) return {};
  // Loaded where it is needed: a server that notes nothing is smaller.
  const { htmlOf } = await import('./html-part.ts');
  return { html: htmlOf(message, message.engagement) };
}

/** One click in the recipient's own program (RFC 8058), at an address that stays in one piece. */
const stopHeaders = ({ unsubscribeUrl }: OutgoingMessage) => ({
  'List-Unsubscribe': { prepared: true, foldLines: false, value: `<${unsubscribeUrl}>` },
  'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
});

interface SmtpError extends Error {
  code?: string;
  command?: string;
  response?: string;
  responseCode?: number;
}

/** The server's own words may name the recipient; its codes do not. */
function faultOf({ code, command, response = '', responseCode = 0 }: SmtpError): SendingFault {
  const answered = responseCode > 0 ? ` with code ${responseCode}` : '';
  // A server that refuses our credentials, or what we are, may be set right; one that refuses recipient or message means it.
  const isFinal = responseCode >= 500 && (command === 'RCPT TO' || command === 'DATA');
  if (!isFinal)
    return new SendingFault('not_sent', `the mail server did not accept the message: ${code ?? 'unknown'}${answered}`);
  if (command === 'RCPT TO' && /^550[ -]5\.1\.1\b/.test(response))
    return new SendingFault('unknown_recipient', 'The mail server of the recipient does not recognize the address.');
  return new SendingFault('refused', `The mail server rejected the message${answered}.`);
}
