// The data of an invitation mail to an attendee.

export interface InvitationFacts {
  what: 'scheduled' | 'rescheduled' | 'cancelled';
  /** The same for all changes of a meeting. */
  invitationId: string;
  /** Increases with each change, including the cancellation. */
  sequence: number;
  title: string;
  /** A URL or a place; null: not set. */
  location: string | null;
  startAt: Date;
  endAt: Date;
  /** The recipient. Guests have no name: ''. */
  attendee: { name: string; email: string };
  /** The attendee's zone, or else the booking's, as an IANA name. */
  timezone: string;
  /** The user whom the attendee meets. */
  userName: string;
  companyName: string;
  /** When the booking was changed. */
  changedAt: Date;
  /** The booking that the recipient can change by a link in the mail; null: no link. */
  bookingId: string | null;
}

const templates = {
  scheduled: 'booking_scheduled',
  rescheduled: 'booking_moved',
  cancelled: 'booking_cancelled',
} as const;

export type InvitationTemplate = (typeof templates)[keyof typeof templates];

export const isInvitation = (template: string): template is InvitationTemplate =>
  Object.values<string>(templates).includes(template);

/** Returns the mail as it is queued. */
export function buildInvitation(facts: InvitationFacts): {
  recipient: string;
  template: InvitationTemplate;
  data: Record<string, string>;
} {
  const { what, attendee, location } = facts;
  return {
    recipient: attendee.email,
    template: templates[what],
    data: {
      invitation_id: facts.invitationId,
      sequence: String(facts.sequence),
      title: facts.title,
      ...(location === null ? {} : { location }),
      start_at: facts.startAt.toISOString(),
      end_at: facts.endAt.toISOString(),
      timezone: facts.timezone,
      attendee_name: attendee.name,
      user_name: facts.userName,
      company_name: facts.companyName,
      changed_at: facts.changedAt.toISOString(),
      ...(facts.bookingId === null ? {} : { booking_id: facts.bookingId }),
    },
  };
}
