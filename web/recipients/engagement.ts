// Addresses in emails that note what becomes of them: a picture that is loaded, links that lead on.

import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { type EngagedDraft, findEngagedDraft } from '../../db/messaging/draft-sending.ts';
import type { Report } from '../../domain/messaging/reports.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import type { Screen, ScreenAnswer, ScreenRequest } from '../../runtime/http/page-routes.ts';
import { noteReport, receiveReport } from '../../services/messaging/received-reports.ts';
import { notFound } from './unsubscribe.ts';

export interface EngagementParts {
  tenants: Pool;
  tokens: SignedTokens;
  /** Runs when events were committed. */
  told: () => void;
}

/** The policy of the addresses that emails are opened from, by its name: mail providers load pictures for many people. */
export const engagementPolicy = { engagement: [{ limit: 3000, window: 60_000 }] };

/** Milliseconds after which a transaction is given up. */
const patience = 5000;
const purposes = { open: 'opened emails', click: 'clicked links' } as const;

/** A GIF of one pixel that lets through what is behind it. */
const pixel: ScreenAnswer = {
  status: 200,
  headers: { 'content-type': 'image/gif' },
  body: Buffer.from('R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64'),
};

/** The path of the picture in an email; emails of test mode are not sent. */
export function openPath(tokens: SignedTokens, companyId: string, draftId: string): string {
  return `/opened/${tokens.write(purposes.open, [companyId, draftId])}`;
}

/** The path that leads on to an address from an email. @param url with http: or https: */
export function clickPath(tokens: SignedTokens, companyId: string, draftId: string, url: string): string {
  return `/clicked/${tokens.write(purposes.click, [companyId, draftId, url])}`;
}

/** What the address of a picture or a link says. */
type Said = [companyId: string, draftId: string, url?: string];

export function engagementScreens(parts: EngagementParts): Screen[] {
  /** @param answer for whoever comes by an address that was signed here */
  const screen = (name: string, path: RegExp, purpose: string, answer: (said: Said) => ScreenAnswer): Screen => {
    const read = ({ token = '' }: ScreenRequest['path']): Said | undefined =>
      parts.tokens.read(purpose, token) as Said | undefined;
    return {
      name,
      path,
      limit: 'engagement',
      methods: ['GET', 'HEAD'],
      async show({ method, path: place, now }) {
        const said = read(place);
        return said && (await note(parts, said, method, now)) ? answer(said) : notFound;
      },
      // People get where they want to, whether it can be noted or not.
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

/** @returns whether there is such an email, of a company that is active */
async function note(
  { tenants, told }: EngagementParts,
  [companyId, draftId, url]: Said,
  method: string,
  now: Date,
): Promise<boolean> {
  const scope = { companyId, testMode: false };
  let isNoted = false;
  const isKnown = await inTransaction(tenants, scope, patience, async (sql, tell, noteRow) => {
    const draft = await findEngagedDraft(sql, scope, draftId);
    // Programs that only look ask for the head; those that look into an email before it is delivered come before it is sent.
    if (!draft?.isSent || method === 'HEAD') return draft !== undefined;
    const { changes } = await receiveReport(sql, scope, 'own', reportOf(draft, draftId, url, now), now);
    noteReport(scope, changes, now, tell, noteRow);
    isNoted = changes.length > 0;
    return true;
  });
  if (isNoted) told();
  return isKnown;
}

/** Once for each email, and for each address in it. */
function reportOf({ recipient }: EngagedDraft, draftId: string, url: string | undefined, now: Date): Report {
  const about = { message_id: draftId, to: recipient, contacts: [{ kind: 'email', value: recipient }] as const };
  const report = { ...about, type: 'email_engagement', occurredAt: now } as const;
  return url === undefined
    ? { ...report, engagement: 'open', external_id: `${draftId} open` }
    : { ...report, engagement: 'click', link_url: url, external_id: `${draftId} click ${url}` };
}
