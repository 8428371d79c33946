// Tracking of emails: a pixel for opens, and redirects for clicked links.

import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { type EngagedDraft, findEngagedDraft } from '../../db/messaging/draft-sending.ts';
import type { Report } from '../../domain/messaging/reports.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import type { PageRequest, PageResponse, PageRoute } from '../../runtime/http/page-routes.ts';
import { noteReport, receiveReport } from '../../services/messaging/received-reports.ts';
import { notFound } from './unsubscribe.ts';

export interface EngagementParts {
  tenants: Pool;
  tokens: SignedTokens;
  /** Called when events were committed. */
  onEvents: () => void;
}

/**
 * The rate limit of tracking addresses per IP address. Mail providers load images for many people.
 */
export const engagementPolicy = { engagement: [{ limit: 3000, window: 60_000 }] };

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
const purposes = { open: 'opened emails', click: 'clicked links' } as const;

/** A transparent GIF of one pixel. */
const pixel: PageResponse = {
  status: 200,
  headers: { 'content-type': 'image/gif' },
  body: Buffer.from('R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64'),
};

/** Returns the path of the tracking pixel of an email. Test mode sends no emails. */
export function openPath(tokens: SignedTokens, companyId: string, draftId: string): string {
  return `/opened/${tokens.write(purposes.open, [companyId, draftId])}`;
}

/** Returns the path that redirects to an address from an email. @param url with http: or https: */
export function buildClickPath(tokens: SignedTokens, companyId: string, draftId: string, url: string): string {
  return `/clicked/${tokens.write(purposes.click, [companyId, draftId, url])}`;
}

/** The payload of a signed tracking address. */
type TrackingPayload = [companyId: string, draftId: string, url?: string];

export function createEngagementRoutes(parts: EngagementParts): PageRoute[] {
  /** @param answer the response for a validly signed address */
  const screen = (
    name: string,
    path: RegExp,
    purpose: string,
    answer: (said: TrackingPayload) => PageResponse,
  ): PageRoute => {
    const read = ({ token = '' }: PageRequest['path']): TrackingPayload | undefined =>
      parts.tokens.read(purpose, token) as TrackingPayload | undefined;
    return {
      name,
      path,
      limit: 'engagement',
      methods: ['GET', 'HEAD'],
      async show({ method, path: place, now }) {
        const said = read(place);
        return said && (await recordEngagement(parts, said, method, now)) ? answer(said) : notFound;
      },
      // A redirect works even if the click cannot be recorded.
      refuse(_status, place) {
        const said = read(place);
        return said ? answer(said) : notFound;
      },
    };
  };
  return [
    screen('opened', /^\/opened\/(?<token>[\w.-]{1,500})$/, purposes.open, () => pixel),
    screen('clicked', /^\/clicked\/(?<token>[\w.-]{1,4000})$/, purposes.click, ([, , url = '']) => ({ redirect: url })),
  ];
}

/** Records an open or a click. @returns true if the email was sent by an active workspace */
async function recordEngagement(
  { tenants, onEvents }: EngagementParts,
  [companyId, draftId, url]: TrackingPayload,
  method: string,
  now: Date,
): Promise<boolean> {
  const scope = { companyId, testMode: false };
  let isNoted = false;
  const isKnown = await inTransaction(tenants, scope, timeoutMs, async (sql, emit, noteRow) => {
    const draft = await findEngagedDraft(sql, scope, draftId);
    // Some programs only send HEAD requests. Scanners that read an email before its delivery load
    // the image before the draft counts as sent.
    if (!draft?.isSent || method === 'HEAD') return draft !== undefined;
    const { changes } = await receiveReport(sql, scope, 'own', buildReport(draft, draftId, url, now), now);
    noteReport(scope, changes, now, emit, noteRow);
    isNoted = changes.length > 0;
    return true;
  });
  if (isNoted) onEvents();
  return isKnown;
}

/** Builds the report. Its `external_id` makes it unique per email, and per link of the email. */
function buildReport({ recipient }: EngagedDraft, draftId: string, url: string | undefined, now: Date): Report {
  const about = { message_id: draftId, to: recipient, contacts: [{ kind: 'email', value: recipient }] as const };
  const report = { ...about, type: 'email_engagement', occurredAt: now } as const;
  return url === undefined
    ? { ...report, engagement: 'open', external_id: `${draftId} open` }
    : { ...report, engagement: 'click', link_url: url, external_id: `${draftId} click ${url}` };
}
