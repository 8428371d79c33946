// The texts of service mails. They contain no passwords: the creator of a user sees the password.

export interface MailText {
  subject: string;
  text: string;
}

/** A mail of the service that is ready to be sent. */
export interface ServiceMail extends MailText {
  /** The same for every attempt, so that receivers can detect duplicates. */
  id: string;
  recipient: string;
  /** The calendar attachment of an invitation. */
  invitation?: { method: 'REQUEST' | 'CANCEL'; filename: string; content: string } | undefined;
}

export interface MailTransport {
  /** @throws MailFault if the mail server did not accept the mail */
  send(mail: ServiceMail): Promise<void>;
}

/** A mail that was not sent. Its fields contain no addresses, so that they can be logged. */
export class MailFault extends Error {
  /** True if a retry would fail the same way. */
  readonly isFinal: boolean;
  readonly code: string | undefined;
  readonly responseCode: number | undefined;

  constructor(isFinal: boolean, code: string | undefined, responseCode: number | undefined) {
    super('the mail server rejected a mail');
    this.isFinal = isFinal;
    this.code = code;
    this.responseCode = responseCode;
  }
}

type Template = (data: Readonly<Record<string, string>>, signInAt: string) => MailText;

const templates: Readonly<Record<string, Template>> = {
  webhook_failing: (data) => ({
    subject: `A webhook endpoint of ${cleanName(data.company_name ?? '')} keeps failing`,
    text: [
      `Hello ${cleanName(data.full_name ?? '')},`,
      '',
      `The webhook endpoint at ${cleanName(data.host ?? '')} has been failing for some time. If it keeps failing, it will be disabled.`,
      ...describeWebhook(data),
    ].join('\n'),
  }),
  webhook_disabled: (data) => ({
    subject: `A webhook endpoint of ${cleanName(data.company_name ?? '')} was disabled`,
    text: [
      `Hello ${cleanName(data.full_name ?? '')},`,
      '',
      `The webhook endpoint at ${cleanName(data.host ?? '')} was disabled because it ${data.reason === 'gone' ? 'reported that it is gone' : 'kept failing'}.`,
      'New events are kept for 30 days. When the endpoint works again, enable it and recover the missed deliveries.',
      ...describeWebhook(data),
    ].join('\n'),
  }),
  trial_ended: buildBillingMail('The trial of %s has ended', () => [
    'The trial has ended, and no plan was chosen. Your data is kept. Choose a plan to use the API again.',
  ]),
  payment_failed: buildBillingMail('A payment of %s failed', (data) => [
    `The card on file was declined. The service continues for now. We will retry the payment for two weeks, starting on ${data.next_on}.`,
    'Please add another card in the billing portal.',
  ]),
  payment_succeeded: buildBillingMail('The payment of %s succeeded', () => [
    'The payment that had failed has now succeeded. You do not need to do anything.',
  ]),
  subscription_ended: buildBillingMail('The subscription of %s has ended', (data) => [
    `The subscription ended on ${data.ended_on}. Users can still sign in, but the API is no longer available. Your data is kept for 90 days.`,
    'Choose a plan to restore everything.',
  ]),
  deletion_reminder: buildBillingMail('The data of %s will be deleted', (data) => [
    `The subscription ended on ${data.ended_on}. Your data is kept until ${data.next_on} and is then scheduled for deletion.`,
    'Choose a plan before then to restore everything.',
  ]),
  deletion_scheduled: buildBillingMail('The data of %s is about to be deleted', (data) => [
    `The subscription ended on ${data.ended_on}. All data will be permanently deleted on ${data.next_on}.`,
    'Choose a plan before then to keep your data.',
  ]),
  booking_scheduled: buildBookingMail('Meeting with %s', () => ['Your meeting is booked.']),
  booking_moved: buildBookingMail('Meeting with %s rescheduled', () => [
    'Your meeting was rescheduled. The new time is:',
  ]),
  booking_cancelled: buildBookingMail('Meeting with %s cancelled', () => [
    'Your meeting was cancelled. It was scheduled for:',
  ]),
  new_password: (data) => ({
    subject: 'Choose a new password',
    text: [
      `Hello ${cleanName(data.full_name ?? '')},`,
      '',
      'We received a request to reset the password for this email address. To choose a new password, open this link within one hour:',
      data.link ?? '',
      '',
      'If you did not request this, you can ignore this email. Your password stays the same.',
      '',
    ].join('\n'),
  }),
  welcome: (data, signInAt) => {
    const company = cleanName(data.company_name ?? '');
    return {
      subject: `Welcome to ${company}`,
      text: [
        `Hello ${cleanName(data.full_name ?? '')},`,
        '',
        `You now have access to the CRM of ${company}. Sign in with this email address at`,
        signInAt,
        '',
        'This email does not contain your password. Use the one that you chose, or the one that your administrator gives you.',
        '',
      ].join('\n'),
    };
  },
};

/** Builds a billing mail. @param subject with %s for the company */
function buildBillingMail(subject: string, text: (data: Readonly<Record<string, string>>) => string[]): Template {
  return (data, signInAt) => ({
    subject: subject.replace('%s', cleanName(data.company_name ?? '')),
    text: [`Hello ${cleanName(data.full_name ?? '')},`, '', ...text(data), '', signInAt, ''].join('\n'),
  });
}

/**
 * Builds a mail to an attendee, who has no account here and may not know the service. Of user
 * content it shows only names, the title and the location, not the description.
 * @param subject with %s for the user they meet
 */
function buildBookingMail(subject: string, text: () => string[]): Template {
  return (data) => {
    const [user, company] = [cleanName(data.user_name ?? ''), cleanName(data.company_name ?? '')];
    const where = toSingleLine(data.location ?? '');
    return {
      subject: subject.replace('%s', () => user),
      text: [
        `Hello ${cleanName(data.attendee_name ?? '')}`.trim().concat(','),
        '',
        ...text(),
        '',
        `What: ${cleanName(data.title ?? '')}`,
        `When: ${formatTime(data)}`,
        `With: ${user}, ${company}`,
        ...(where === '' ? [] : [`Where: ${where}`]),
        ...(data.link === undefined ? [] : ['', 'To cancel the meeting or choose another time, open:', data.link]),
        '',
      ].join('\n'),
    };
  };
}

/** Formats the time in the reader's time zone. */
function formatTime({
  start_at: start = '',
  end_at: end = '',
  timezone = 'UTC',
}: Readonly<Record<string, string>>): string {
  const on = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeZone: timezone });
  const at = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: timezone });
  const [first, last] = [Date.parse(start), Date.parse(end)];
  return `${on.format(first)}, ${at.format(first)} to ${at.format(last)} (${timezone})`;
}

const maxLineLength = 500;

/** Returns the text as a single line. */
function toSingleLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Cf}]+/gu, ' ')
    .trim()
    .slice(0, maxLineLength);
}

function describeWebhook(data: Readonly<Record<string, string>>): string[] {
  return [
    '',
    `Webhook endpoint: ${cleanName(data.webhook_id ?? '')}`,
    `Last event: ${cleanName(data.event ?? '')}`,
    `Last response: ${cleanName(data.answer ?? '')}`,
    '',
  ];
}

/**
 * Composes a mail.
 * @param signInAt the address of the web app
 * @returns undefined if this version does not know the template
 */
export function composeMail(
  template: string,
  data: Readonly<Record<string, string>>,
  signInAt: string,
): MailText | undefined {
  return Object.hasOwn(templates, template) ? templates[template]?.(data, signInAt) : undefined;
}

const maxNameLength = 100;

/**
 * Cleans a name for mails: one short line without URLs or email addresses. Anyone can sign up, so a
 * name must not carry a message to strangers in our mails.
 */
export function cleanName(name: string): string {
  return name
    .replace(/[^\p{L}\p{M}\p{N} '’&(),-]+/gu, ' ')
    .replace(/ +/g, ' ')
    .trim()
    .slice(0, maxNameLength);
}
