// Sends emails of workspaces from the address of the service, with an unsubscribe link.
import type { Transporter } from 'nodemailer';
import {
  appendUnsubscribeLink,
  type OutgoingMessage,
  type Sender,
  SendingFault,
} from '../../domain/messaging/senders.ts';
import { buildMessageId } from './transport.ts';

/** @param from the address that the mail server accepts as the sender of the service */
export function createSmtpSender(transport: Transporter, from: string): Sender {
  return {
    async send(message) {
      const messageId = buildMessageId(message.id, from);
      try {
        await transport.sendMail({
          messageId,
          from: { name: message.companyName, address: from },
          to: { name: '', address: message.recipient },
          ...(message.sender === null ? {} : { replyTo: { name: '', address: message.sender } }),
          subject: message.subject ?? '',
          text: appendUnsubscribeLink(message),
          ...(await buildHtmlPart(message)),
          headers: unsubscribeHeaders(message),
        });
      } catch (error) {
        throw toFault(error as SmtpError);
      }
      return messageId;
    },
  };
}

/** Builds the HTML part if opens and clicks are tracked. */
async function buildHtmlPart(message: OutgoingMessage): Promise<{ html?: string }> {
  if (!message.engagement) return {};
  // Loaded on demand, because servers without tracking do not need it.
  const { renderHtml } = await import('./html-part.ts');
  return { html: renderHtml(message, message.engagement) };
}

/**
 * One-click unsubscribe (RFC 8058). The header is not folded, so that the URL stays in one piece.
 */
const unsubscribeHeaders = ({ unsubscribeUrl }: OutgoingMessage) => ({
  'List-Unsubscribe': { prepared: true, foldLines: false, value: `<${unsubscribeUrl}>` },
  'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
});

interface SmtpError extends Error {
  code?: string;
  command?: string;
  response?: string;
  responseCode?: number;
}

/** Uses only codes in errors, because the server's message may contain the recipient. */
function toFault({ code, command, response = '', responseCode = 0 }: SmtpError): SendingFault {
  const answered = responseCode > 0 ? ` with code ${responseCode}` : '';
  // Only rejections of the recipient or the message are final. Rejected credentials can be fixed.
  const isFinal = responseCode >= 500 && (command === 'RCPT TO' || command === 'DATA');
  if (!isFinal)
    return new SendingFault('not_sent', `the mail server did not accept the message: ${code ?? 'unknown'}${answered}`);
  if (command === 'RCPT TO' && /^550[ -]5\.1\.1\b/.test(response))
    return new SendingFault('unknown_recipient', 'The mail server of the recipient does not recognize the address.');
  return new SendingFault('refused', `The mail server rejected the message${answered}.`);
}
