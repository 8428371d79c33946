// Sends SMS and WhatsApp messages through Twilio, which has no idempotency keys.
import {
  type OutgoingMessage,
  type Sender,
  SendingFault,
  type SendingFaultKind,
} from '../../domain/messaging/senders.ts';
import type { MessagingProvider } from '../../runtime/config.ts';
import { type OutgoingAnswer, type OutgoingClient, OutgoingError } from '../../runtime/outbound/client.ts';

/** Maximum response sizes in bytes. A page of messages contains their bodies. */
const maxBytes = { message: 64 * 1024, page: 4 * 1024 * 1024 };
/** Messages per lookup. An attempt never has more to one number. */
const pageSize = 100;
/** Milliseconds by which the provider's clock may differ. */
const clockSkew = 60_000;

/** The meaning of Twilio's error codes. All other codes are rejections. */
const faults: Readonly<Record<number, readonly [SendingFaultKind, string]>> = {
  21610: ['said_stop', 'The recipient has opted out with the provider.'],
  21211: ['refused', 'The provider does not recognize the phone number of the recipient.'],
  21614: ['refused', 'The phone number of the recipient cannot receive SMS.'],
  21606: ['no_sender', 'The provider does not send SMS from this phone number.'],
  21659: ['no_sender', 'The phone number does not belong to the account at the provider.'],
  21660: ['no_sender', 'The phone number does not belong to the account at the provider.'],
};

export function createTwilioSender(client: OutgoingClient, { url, accountId, authToken }: MessagingProvider): Sender {
  const place = `${url}/2010-04-01/Accounts/${encodeURIComponent(accountId)}/Messages.json`;
  const authorization = `Basic ${Buffer.from(`${accountId}:${authToken}`).toString('base64')}`;

  async function ask(request: { method: 'GET' | 'POST'; url: string; body?: string; mostBytes: number }) {
    const headers = { authorization, accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' };
    try {
      return await client.send({ ...request, headers, testMode: false });
    } catch (error) {
      if (!(error instanceof OutgoingError)) throw error;
      const isConnected = error.fault === 'timeout' || error.fault === 'http_error';
      throw new SendingFault(isConnected ? 'unknown' : 'not_sent', `the provider did not respond: ${error.fault}`);
    }
  }

  return {
    async send(message) {
      const body = new URLSearchParams({ ...buildAddresses(message), Body: message.body }).toString();
      const answer = await ask({ method: 'POST', url: place, body, mostBytes: maxBytes.message });
      if (answer.status >= 300) throw toFault(answer);
      const { sid } = parseBody<{ sid?: unknown }>(answer);
      if (typeof sid !== 'string') throw new SendingFault('unknown', 'the provider returned no reference');
      return sid;
    },
    async findSent(message, since) {
      const query = new URLSearchParams({ ...buildAddresses(message), PageSize: String(pageSize) });
      const answer = await ask({ method: 'GET', url: `${place}?${query}`, mostBytes: maxBytes.page });
      if (answer.status >= 300) throw new SendingFault('unknown', `the provider returned status ${answer.status}`);
      // Not filtered by the sending date, which queued messages do not have yet.
      return (parseBody<{ messages?: TwilioMessage[] }>(answer).messages ?? [])
        .filter(({ date_created: created }) => Date.parse(created) >= since.getTime() - clockSkew)
        .filter(({ body, status }) => body === message.body && status !== 'failed' && status !== 'canceled')
        .map(({ sid }) => sid);
    },
  };
}

interface TwilioMessage {
  sid: string;
  body: string;
  status: string;
  /** In RFC 2822 format. */
  date_created: string;
}

function buildAddresses({ channel, recipient, sender }: OutgoingMessage): { To: string; From: string } {
  if (sender === null) throw new Error('an SMS needs a sender number');
  const prefix = channel === 'whatsapp' ? 'whatsapp:' : '';
  return { To: prefix + recipient, From: prefix + sender };
}

function toFault(answer: OutgoingAnswer): SendingFault {
  const { status } = answer;
  if (status >= 500) return new SendingFault('unknown', `the provider failed with status ${status}`);
  // Rejected credentials can be fixed.
  if (status === 429 || status === 401 || status === 403)
    return new SendingFault('not_sent', `the provider currently rejects messages with status ${status}`);
  const { code } = parseBody<{ code?: unknown }>(answer);
  const known = faults[Number(code)];
  if (known) return new SendingFault(...known);
  return new SendingFault('refused', `The provider rejected the message with code ${Number(code) || status}.`);
}

/**
 * @throws SendingFault if the response is not JSON, because the outcome of the message is then
 * unknown
 */
function parseBody<Body extends object>({ body, status }: OutgoingAnswer): Partial<Body> {
  try {
    return JSON.parse(String(body)) ?? {};
  } catch {
    if (status >= 400) return {};
    throw new SendingFault('unknown', 'failed to read the response of the provider');
  }
}
