// Delivers mails: each by one server, again with growing pauses, and given up in the end.
import type { SendMailOptions, Transporter } from 'nodemailer';
import type { Pool } from '../../db/client/pool.ts';
import { closeMail, type MailRow, postponeMail, takeMails } from '../../db/messaging/mails.ts';
import { composeMail } from '../../domain/messaging/mails.ts';
import { isInvitation } from '../../domain/scheduling/invitation.ts';
import { messageIdOf, openMailTransport } from '../../integrations/smtp/transport.ts';
import type { MailServer } from '../../runtime/config.ts';
import type { Secrets } from '../../runtime/credentials/secrets.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import { everyRound } from '../runner.ts';

export interface MailSettings {
  /** undefined: mails are kept in their table, and nobody receives them. */
  server: MailServer | undefined;
  /** The address that mails come from. */
  from: string;
  /** The address of the web app. */
  dashboardUrl: string;
  /** What opens what was sealed in the table. */
  secrets: Pick<Secrets, 'decrypt'>;
}

/** Milliseconds between two looks for mails that are due. */
const every = 1000;
/** Mails that are delivered at once. */
const batch = 5;
const minute = 60_000;
/** Longer than an attempt can last by the times below. */
const lease = 10 * minute;
/** With pauses of 1, 3, 9, 27, 81 and 243 minutes: six hours. */
const mostAttempts = 7;

/**
 * Starts the deliveries.
 * @returns a function that stops them, once those on their way have ended or a few seconds have passed
 */
export async function startMail(platform: Pool, settings: MailSettings, log: Log): Promise<() => Promise<void>> {
  const transport = settings.server && (await openMailTransport(settings.server));
  const round = async (stop: AbortSignal): Promise<void> => {
    while (!stop.aborted && (await deliverBatch(platform, transport, settings, log)));
  };
  const stopRounds = everyRound(every, round, log.child({ job: 'mails' }));
  return async () => {
    await stopRounds();
    transport?.close();
  };
}

/** @returns true when there may be more */
async function deliverBatch(
  platform: Pool,
  transport: Transporter | undefined,
  settings: MailSettings,
  log: Log,
): Promise<boolean> {
  const { taken, due } = await platform.use((sql) => takeMails(sql, batch, lease, new Date()));
  await Promise.all(
    taken.map(async (mail) => {
      const noted = { mail: mail.id, company: mail.companyId, template: mail.template };
      if (transport) return deliver(platform, transport, settings, mail, log.child(noted));
      await platform.use((sql) => closeMail(sql, mail, 'kept'));
      log.info(noted, 'a mail is kept: there is no SMTP_URL to send it to');
    }),
  );
  return due === batch;
}

async function deliver(
  platform: Pool,
  transport: Transporter,
  { from, dashboardUrl, secrets }: MailSettings,
  mail: MailRow,
  log: Log,
): Promise<void> {
  const content = composeMail(mail.template, opened(mail.data, secrets), dashboardUrl);
  if (!content) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error('a mail is given up: this version does not know its template');
    return;
  }
  // Servers died in the middle of each attempt: one more could end this one.
  if (mail.attempts > mostAttempts) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error({ attempts: mostAttempts }, 'a mail is given up: no attempt to send it came to an end');
    return;
  }
  try {
    await transport.sendMail({
      from,
      to: { name: '', address: mail.recipient },
      ...content,
      ...(await calendarPart(mail, from)),
      messageId: messageIdOf(mail.id, from),
      headers: { 'Auto-Submitted': 'auto-generated' },
    });
  } catch (error) {
    await retryLater(platform, mail, error as Error, log);
    return;
  }
  await platform.use((sql) => closeMail(sql, mail, 'sent'));
  log.info({ attempts: mail.attempts }, 'a mail was sent');
}

/** Whoever reads the table sees no link that opens anything; whoever gets the mail does. */
function opened({ sealed_link: sealed, ...data }: MailRow['data'], secrets: MailSettings['secrets']): MailRow['data'] {
  return sealed === undefined ? data : { ...data, link: secrets.decrypt(sealed) };
}

/** What calendars understand of an invitation; nothing in other mails. */
async function calendarPart({ template, recipient, data }: MailRow, from: string): Promise<SendMailOptions> {
  if (!isInvitation(template)) return {};
  // Loaded with the first: a server that sends none is smaller.
  const { invitationFile } = await import('../../domain/scheduling/invitation-file.ts');
  return { icalEvent: invitationFile(template, recipient, data, from) };
}

async function retryLater(platform: Pool, mail: MailRow, error: Error, log: Log): Promise<void> {
  const { code, responseCode } = error as { code?: string; responseCode?: number };
  // The server's own words may name the recipient; its codes do not.
  const why = { attempts: mail.attempts, code, response_code: responseCode };
  // A server that refuses our credentials, or what we are, may be set right; one that refuses the mail itself means it.
  const isFinal = responseCode !== undefined && responseCode >= 500 && (code === 'EENVELOPE' || code === 'EMESSAGE');
  if (isFinal || mail.attempts >= mostAttempts) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error(why, 'a mail is given up');
    return;
  }
  const pause = minute * 3 ** (mail.attempts - 1);
  await platform.use((sql) => postponeMail(sql, mail, new Date(Date.now() + pause)));
  log.warn({ ...why, next_in_minutes: pause / minute }, 'a mail could not be sent; it is tried again');
}
