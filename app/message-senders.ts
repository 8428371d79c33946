// Selects the sender of each message channel.
import type { Transporter } from 'nodemailer';
import type { Senders } from '../domain/messaging/senders.ts';
import { createSmtpSender } from '../integrations/smtp/outbound.ts';
import { createTwilioSender } from '../integrations/twilio/outbound.ts';
import type { MessagingProvider } from '../runtime/config.ts';
import type { OutgoingClient } from '../runtime/outbound/client.ts';

export interface SenderSettings {
  /** undefined: emails are only stored. */
  transport: Transporter | undefined;
  /** Sender address of emails. */
  from: string;
  client: OutgoingClient;
  /** undefined: texts are only stored. */
  provider: MessagingProvider | undefined;
}

export function openSenders({ transport, from, client, provider }: SenderSettings): Senders {
  const texts = provider && createTwilioSender(client, provider);
  return { email: transport && createSmtpSender(transport, from), sms: texts, whatsapp: texts };
}
