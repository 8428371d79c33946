// The mail that tells an attendee of a booking: what is kept of it until it is sent.

export interface InvitationFacts {
  what: 'scheduled' | 'rescheduled' | 'cancelled';
  /** The same through all moves of a meeting. */
  invitationId: string;
  /** Higher with each change, the cancellation included. */
  sequence: number;
  title: string;
  /** An address of the web, or a place; null: where is not said. */
  location: string | null;
  startAt: Date;
  endAt: Date;
  attendee: { name: string; email: string };
  /** The attendee's, or that of the booking. As IANA names it. */
  timezone: string;
  /** Who is met. */
  userName: string;
  companyName: string;
  /** When it was changed so. */
  changedAt: Date;
}

const templates = {
  scheduled: 'booking_scheduled',
  rescheduled: 'booking_moved',
  cancelled: 'booking_cancelled',
} as const;

export type InvitationTemplate = (typeof templates)[keyof typeof templates];

export const isInvitation = (template: string): template is InvitationTemplate =>
  Object.values<string>(templates).includes(template);

/** What is written into the table of mails. */
export function invitationOf(facts: InvitationFacts): {
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
    },
  };
}
