// Provider reports: a common format for all providers, and their consequences.
import type { components } from '../../generated/api.ts';
import { buildFieldProblem, type FieldProblem } from '../objects/field-values.ts';
import { readAddress } from './addresses.ts';

/** A report in the format of the OpenAPI document. Other formats are converted to it. */
export type ReportBody = components['schemas']['InboundReport'];
export type ReportKind = ReportBody['type'];

type Field = Exclude<keyof ReportBody, 'type' | 'external_id' | 'occurred_at'>;

/** The required and optional fields of each kind, besides the common ones. */
const fieldsOf: Readonly<Record<ReportKind, { needed: readonly Field[]; more: readonly Field[] }>> = {
  sms: { needed: ['from', 'to', 'body'], more: [] },
  whatsapp: { needed: ['from', 'to', 'body'], more: [] },
  email: { needed: ['from', 'to', 'body'], more: ['subject', 'has_attachments'] },
  email_engagement: { needed: ['to', 'engagement'], more: ['message_id', 'link_url'] },
  fax: { needed: ['from', 'to', 'pages'], more: [] },
  call: { needed: ['from', 'to', 'direction', 'outcome', 'duration_seconds'], more: ['user_id'] },
  form: { needed: ['form'], more: ['email', 'phone', 'answers'] },
};
const allFields = [...new Set(Object.values(fieldsOf).flatMap(({ needed, more }) => [...needed, ...more]))];

/** An external contact: an E.164 number or a lower-case email address. */
interface Address {
  kind: 'phone' | 'email';
  value: string;
}

/** A parsed report. */
export interface Report extends Omit<ReportBody, 'occurred_at'> {
  occurredAt: Date;
  /** The contacts of the report. It is linked to the first one that a record has. */
  contacts: readonly Address[];
}

/**
 * Parses a report that matches its schema.
 * @param country of the company; numbers without a country code are read as numbers of this country
 * @returns the report, or problems with fields that its kind needs or does not have, and with
 * addresses
 */
export function readReport(
  body: ReportBody,
  country: string | null,
  now: Date,
): { report: Report } | { problems: FieldProblem[] } {
  const { occurred_at: occurred, ...rest } = body;
  const problems = findFieldProblems(body);
  const read: Record<string, string> = {};
  for (const field of ['from', 'to', 'email', 'phone'] as const) {
    const text = body[field];
    if (text === undefined) continue;
    const isEmail = field === 'email' || (field !== 'phone' && /^email/.test(body.type));
    const address = readAddress(isEmail ? 'email' : 'phone', field, text, country);
    if ('value' in address) read[field] = address.value;
    // Short codes, alphanumeric senders and withheld numbers are valid.
    else if (isEmail) problems.push(address.problem);
  }
  if (problems.length > 0) return { problems };
  const occurredAt = new Date(Math.min(Date.parse(occurred ?? now.toISOString()), now.getTime()));
  return { report: { ...rest, ...read, occurredAt, contacts: findContacts(body, read) } };
}

function findFieldProblems(body: ReportBody): FieldProblem[] {
  const { needed, more } = fieldsOf[body.type];
  const missing = needed.filter((field) => body[field] === undefined);
  const others = allFields.filter((field) => body[field] !== undefined && ![...needed, ...more].includes(field));
  const kinds = (field: Field): string[] =>
    Object.entries(fieldsOf).flatMap(([kind, fields]) =>
      [...fields.needed, ...fields.more].includes(field) ? [kind] : [],
    );
  return [
    ...missing.map((field) => buildFieldProblem(field, 'REQUIRED', `is required if type is ${body.type}`)),
    ...others.map((field) =>
      buildFieldProblem(field, 'CONFLICTING_FIELDS', `is only allowed if type is ${kinds(field).join(' or ')}`),
    ),
    ...(body.link_url !== undefined && body.engagement !== 'click' && body.type === 'email_engagement'
      ? [buildFieldProblem('link_url', 'CONFLICTING_FIELDS', 'is only allowed if engagement is click')]
      : []),
  ];
}

/** @param read the addresses that could be parsed */
function findContacts({ type, direction }: ReportBody, read: Record<string, string>): Address[] {
  const kind = /^email/.test(type) ? 'email' : 'phone';
  const isToThem = type === 'email_engagement' || direction === 'outbound';
  const found: [Address['kind'], string | undefined][] =
    type === 'form'
      ? [
          ['email', read.email],
          ['phone', read.phone],
        ]
      : [[kind, isToThem ? read.to : read.from]];
  return found.flatMap(([each, value]) => (value === undefined ? [] : [{ kind: each, value }]));
}

/** Returns the channel of a report that becomes a message; undefined for others. */
export function findChannel(kind: ReportKind): 'sms' | 'whatsapp' | 'email' | undefined {
  return kind === 'sms' || kind === 'whatsapp' || kind === 'email' ? kind : undefined;
}

/** The opt-out keywords on which carriers have agreed. They must be the whole message. */
const stopWords = new Set(['STOP', 'STOPALL', 'UNSUBSCRIBE', 'CANCEL', 'END', 'QUIT']);

const isStopWord = (text: string | undefined): boolean => stopWords.has(text?.trim().toUpperCase() ?? '');

/** Returns why the contact must not be messaged again; undefined: messages are allowed. */
export function findStopReason({
  type,
  subject,
  body,
  engagement,
}: Report): 'unsubscribed' | 'bounced' | 'complained' | undefined {
  if (engagement === 'bounced' || engagement === 'complained') return engagement;
  const said = type === 'email' ? isStopWord(subject) || isStopWord(body) : findChannel(type) && isStopWord(body);
  return said ? 'unsubscribed' : undefined;
}

/** Maximum characters of a body and a subject in events. */
const maxLengths = { preview: 500, subject: 200 };

const truncate = (text: string, length: number): string => [...text.slice(0, 2 * length)].slice(0, length).join('');

/** The record of a report, and for engagements the message and its campaign, if they are known. */
export interface Link {
  object: string | null;
  record_id: string | null;
  message_id: string | null;
  campaign_id: string | null;
}

/** Builds the event of a report; undefined if it has none. */
export function buildReportEvent(
  id: string,
  report: Report,
  link: Link,
  now: Date,
): { name: string; data: Record<string, unknown> } | undefined {
  const { from, to, body = '' } = report;
  const about = {
    ...(link.record_id === null ? {} : { object: link.object, record_id: link.record_id }),
    timestamp: report.occurredAt.toISOString(),
    occurred_at: now.toISOString(),
  };
  const preview = truncate(body, maxLengths.preview);
  switch (report.type) {
    case 'sms':
    case 'whatsapp':
      return {
        name: 'message.sms.received',
        data: { message_id: id, channel: report.type, from, to, preview, ...about },
      };
    case 'email':
      return {
        name: 'message.email.received',
        data: {
          message_id: id,
          from,
          to: [to],
          subject: truncate(report.subject ?? '', maxLengths.subject),
          preview,
          has_attachments: report.has_attachments ?? false,
          ...about,
        },
      };
    case 'email_engagement':
      if (report.engagement !== 'open' && report.engagement !== 'click') return undefined;
      return {
        name: 'message.email.engagement',
        data: {
          ...(link.message_id === null ? {} : { message_id: link.message_id }),
          ...(link.campaign_id === null ? {} : { campaign_id: link.campaign_id }),
          ...(report.link_url === undefined ? {} : { link_url: report.link_url }),
          engagement: report.engagement,
          recipient: to,
          ...about,
        },
      };
    case 'fax':
      return { name: 'fax.received', data: { fax_id: id, from, to, pages: report.pages, ...about } };
    case 'call': {
      const { direction, outcome, duration_seconds, user_id } = report;
      const by = user_id === undefined ? {} : { user_id };
      return {
        name: 'call.completed',
        data: { call_id: id, direction, outcome, duration_seconds, from, to, ...by, ...about },
      };
    }
    case 'form':
      return { name: 'form.submitted', data: { form: report.form, submission_id: id, ...about } };
  }
}
