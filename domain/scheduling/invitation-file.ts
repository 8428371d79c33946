// Builds the calendar attachment of an invitation.
import { plainName } from '../messaging/mails.ts';
import { calendarText } from './icalendar.ts';
import type { InvitationTemplate } from './invitation.ts';

/** The attachment in the form that mail programs expect. */
export interface InvitationFile {
  method: 'REQUEST' | 'CANCEL';
  filename: string;
  content: string;
}

/**
 * @param data from invitationOf; names chosen by others are cleaned as in the mail's text
 * @param from the sender address
 */
export function invitationFile(
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
    title: plainName(data.title ?? ''),
    description: null,
    location: data.location ?? null,
    createdAt: Date.parse(data.changed_at ?? ''),
  };
  const content = calendarText(meeting, {
    method,
    sequence: Number(data.sequence),
    organizer: { name: plainName(data.user_name ?? ''), email: from },
    attendee: { name: plainName(data.attendee_name ?? ''), email: recipient },
  });
  return { method, filename: 'invitation.ics', content };
}
