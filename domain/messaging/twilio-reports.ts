// Converts Twilio requests to reports.
import type { ReportBody } from './reports.ts';

/** A report, and the workspace's number that it concerns. */
export interface TwilioReport {
  body: ReportBody;
  ownNumber: string;
}

/** The outcomes of ended calls. */
const outcomes: Readonly<Record<string, 'answered' | 'no_answer' | 'busy' | 'failed'>> = {
  completed: 'answered',
  'no-answer': 'no_answer',
  canceled: 'no_answer',
  busy: 'busy',
  failed: 'failed',
};

/** Maximum characters of a report's text. */
const maxTextLength = 50_000;

/**
 * @returns undefined if it is not about an inbound item, such as a ringing call or the status of a
 * sent text
 */
export function readTwilioRequest(form: ReadonlyMap<string, string>): TwilioReport | undefined {
  const text = (name: string): string => (form.get(name) ?? '').replaceAll('\0', '');
  const [from, to] = [text('From'), text('To')];
  if (form.has('FaxSid')) {
    const pages = Number(text('NumPages'));
    const isWhole = /^(received|delivered)?$/.test(text('FaxStatus') || text('Status')) && pages >= 1;
    if (!isWhole) return undefined;
    return { body: { type: 'fax', external_id: text('FaxSid'), from, to, pages }, ownNumber: to };
  }
  if (form.has('CallSid')) {
    const ended = outcomes[text('CallStatus')];
    if (!ended) return undefined;
    const isOutbound = text('Direction').startsWith('outbound');
    const call = {
      type: 'call' as const,
      external_id: text('CallSid'),
      from,
      to,
      direction: isOutbound ? ('outbound' as const) : ('inbound' as const),
      outcome: text('AnsweredBy').startsWith('machine') ? ('voicemail' as const) : ended,
      duration_seconds: Number(text('CallDuration')) || 0,
    };
    return { body: call, ownNumber: isOutbound ? from : to };
  }
  // Status callbacks of sent texts have a status; received texts have none or a receiving one.
  const isReceived = form.has('MessageSid') && form.has('Body') && /^(received|receiving)?$/.test(text('SmsStatus'));
  if (!isReceived) return undefined;
  const number = (address: string): string => address.replace(/^whatsapp:/, '');
  const type = from.startsWith('whatsapp:') ? ('whatsapp' as const) : ('sms' as const);
  const said = { external_id: text('MessageSid'), from: number(from), to: number(to) };
  return { body: { type, ...said, body: text('Body').slice(0, maxTextLength).toWellFormed() }, ownNumber: number(to) };
}
