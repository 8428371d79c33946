// Who sends messages of which channel.
import type { Transporter } from 'nodemailer';
import type { Senders } from '../domain/messaging/senders.ts';
import { smtpSender } from '../integrations/smtp/outbound.ts';
import { twilioSender } from '../integrations/twilio/outbound.ts';
import type { MessagingProvider } from '../runtime/config.ts';
import type { OutgoingClient } from '../runtime/outbound/client.ts';

export interface SenderSettings {
  /** undefined: emails are kept. */
  transport: Transporter | undefined;
  /** The address that emails come from. */
  from: string;
  client: OutgoingClient;
  /** undefined: texts are kept. */
  provider: MessagingProvider | undefined;
}

export function openSenders({ transport, from, client, provider }: SenderSettings): Senders {
  const texts = provider && twilioSender(client, provider);
  return { email: transport && smtpSender(transport, from), sms: texts, whatsapp: texts };
}
