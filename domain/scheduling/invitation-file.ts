// Builds the calendar attachment of an invitation.
import { cleanName } from '../messaging/mails.ts';
import { formatCalendar } from './icalendar.ts';
import type { InvitationTemplate } from './invitation.ts';

/** The attachment in the form that mail programs expect. */
export interface InvitationFile {
  method: 'REQUEST' | 'CANCEL';
  filename: string;
  content: string;
}

/**
 * @param data from buildInvitation; names chosen by others are cleaned as in the mail's text
 * @param from the sender address
 */
export function buildInvitationFile(
  template: InvitationTemplate,
  recipient: string,
  data: Readonly<Record<string, string>>,
  from: string,
): InvitationFile {
  const method = template === 'booking_cancelled' ? 'CANCEL' : 'REQUEST';
  const meeting = {
    uid: data.invitation_id ?? '',
    start: Date.parse(data.start_at ?? ''),
    end: Date.parse(data.end_at ?? ''),
    title: cleanName(data.title ?? ''),
    description: null,
    location: data.location ?? null,
    createdAt: Date.parse(data.changed_at ?? ''),
  };
  const content = formatCalendar(meeting, {
    method,
    sequence: Number(data.sequence),
    organizer: { name: cleanName(data.user_name ?? ''), email: from },
    attendee: { name: cleanName(data.attendee_name ?? '') || recipient, email: recipient },
  });
  return { method, filename: 'invitation.ics', content };
}
