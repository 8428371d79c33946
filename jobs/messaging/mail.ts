// Delivers mails: leased by one server, retried with growing pauses, abandoned after the last one.
import type { Pool } from '../../db/client/pool.ts';
import { closeMail, type MailRow, postponeMail, takeMails } from '../../db/messaging/mails.ts';
import { composeMail, MailFault, type MailTransport, type ServiceMail } from '../../domain/messaging/mails.ts';
import { isInvitation } from '../../domain/scheduling/invitation.ts';
import type { Log } from '../../runtime/telemetry/log.ts';
import type { JobContext } from '../runner.ts';

export interface MailServices {
  /** Absent: mails stay in their table and are not sent. */
  transport: MailTransport | undefined;
  /** The sender address. */
  from: string;
  /** The address of the web app. */
  dashboardUrl: string;
  /** Decrypts sealed values of the table. */
  decrypt: (sealed: string) => string;
  /** Returns the link by which the attendee of a booking can change it. */
  buildMeetingLink: (companyId: string, bookingId: string) => string;
}

const minuteMs = 60_000;
/** Milliseconds, longer than an attempt can last under the transport's timeouts. */
const leaseMs = 10 * minuteMs;
/** With pauses of 1, 3, 9, 27, 81 and 243 minutes, this makes six hours. */
const mostAttempts = 7;

/** Delivers mails until none is due. */
export async function deliverMails(context: JobContext, services: MailServices): Promise<void> {
  while (!context.signal.aborted && (await deliverBatch(context, services)));
}

/** @returns true if there may be more that this server can take */
async function deliverBatch({ platform, batchSize, log, now }: JobContext, services: MailServices): Promise<boolean> {
  const { transport } = services;
  const { taken, due } = await platform.use((sql) => takeMails(sql, batchSize, leaseMs, now()));
  await Promise.all(
    taken.map(async (mail) => {
      const noted = { mail: mail.id, company: mail.companyId, template: mail.template };
      if (transport) return deliver(platform, transport, services, mail, log.child(noted));
      await platform.use((sql) => closeMail(sql, mail, 'kept'));
      log.info(noted, 'kept a mail: SMTP_URL is not set');
    }),
  );
  // If others hold all due mails, an immediate repetition would find the same ones until they let go.
  return taken.length > 0 && due === batchSize;
}

async function deliver(
  platform: Pool,
  transport: MailTransport,
  services: MailServices,
  mail: MailRow,
  log: Log,
): Promise<void> {
  const { from, dashboardUrl } = services;
  const content = composeMail(mail.template, withLink(mail, services), dashboardUrl);
  if (!content) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error('gave up on a mail: unknown template');
    return;
  }
  // The process died during every attempt, so another attempt could crash this one.
  if (mail.attempts > mostAttempts) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error({ attempts: mostAttempts }, 'gave up on a mail: no attempt was completed');
    return;
  }
  const { id, recipient } = mail;
  const invitation = await invitationPart(mail, from);
  try {
    await transport.send({ id, recipient, ...content, invitation });
  } catch (error) {
    if (!(error instanceof MailFault)) throw error;
    await retryLater(platform, mail, error, log);
    return;
  }
  await platform.use((sql) => closeMail(sql, mail, 'sent'));
  log.info({ attempts: mail.attempts }, 'sent a mail');
}

/** Adds the link of the mail. The table stores no link that grants access, or stores it encrypted. */
function withLink(
  { companyId, data: { sealed_link: sealed, ...data } }: MailRow,
  { decrypt, buildMeetingLink }: MailServices,
): MailRow['data'] {
  if (sealed !== undefined) return { ...data, link: decrypt(sealed) };
  return data.booking_id === undefined ? data : { ...data, link: buildMeetingLink(companyId, data.booking_id) };
}

/** Returns the calendar attachment of an invitation; undefined for other mails. */
async function invitationPart(
  { template, recipient, data }: MailRow,
  from: string,
): Promise<ServiceMail['invitation']> {
  if (!isInvitation(template)) return undefined;
  // Loaded on demand, because servers without invitations do not need it.
  const { buildInvitationFile } = await import('../../domain/scheduling/invitation-file.ts');
  return buildInvitationFile(template, recipient, data, from);
}

async function retryLater(platform: Pool, mail: MailRow, fault: MailFault, log: Log): Promise<void> {
  const { isFinal, code, responseCode } = fault;
  const why = { attempts: mail.attempts, code, response_code: responseCode };
  if (isFinal || mail.attempts >= mostAttempts) {
    await platform.use((sql) => closeMail(sql, mail, 'failed'));
    log.error(why, 'gave up on a mail');
    return;
  }
  const pauseMs = minuteMs * 3 ** (mail.attempts - 1);
  await platform.use((sql) => postponeMail(sql, mail, new Date(Date.now() + pauseMs)));
  log.warn({ ...why, next_in_minutes: pauseMs / minuteMs }, 'failed to send a mail; will retry');
}
