// Secrets that a form makes: made once however often it is sent, shown once on a page of their own.
import * as db from '../../db/access/shown-secrets.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { ScreenAnswer } from '../../runtime/http/page-routes.ts';
import { newRequestId } from '../../runtime/http/request-ids.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { act, type ConsoleParts, inMode, type PersonalRequest, type Show } from './requests.ts';

/** Milliseconds in which what a form made can be shown: the redirect of its answer leads there at once. */
const shownWithin = 10 * 60_000;
/** Milliseconds in which a form does nothing more when it is sent again: longer than it is good without the password. */
const keptFor = 60 * 60_000;

/** What a form made. */
export interface Made {
  id: string;
  secret: string;
}

/** A key of its own in each form that makes a secret. */
export const formKey = (): Html => html`<input type="hidden" name="once" value="${newRequestId()}">`;

/**
 * Does what a form asks, unless it was sent before, and leads to the page that shows the secret. Loading that page again makes nothing.
 * @param page the address of such pages, without the key of the form
 * @throws ApiError what the work refuses; the form can be sent again then
 */
export async function makeOnce(
  parts: ConsoleParts,
  request: PersonalRequest,
  page: string,
  work: () => Promise<Made>,
): Promise<ScreenAnswer> {
  const key = request.form?.get('once') ?? '';
  if (!uuid.test(key))
    throw new ApiError('VALIDATION_ERROR', 'This form is incomplete. Reload the page and try again.');
  const form = sentForm(request, key);
  const expiresAt = new Date(request.now.getTime() + keptFor);
  if (await act(parts, request, [], ({ now, db: { sql } }) => db.claimForm(sql, form, now, expiresAt))) {
    const { id, secret } = await work().catch(async (error: unknown) => {
      await act(parts, request, [], ({ db: { sql } }) => db.releaseForm(sql, form));
      throw error;
    });
    await act(parts, request, [], ({ db: { sql } }) => db.storeSecret(sql, form, id, parts.secrets.encrypt(secret)));
  }
  return { redirect: inMode(`${page}/${key}`, request.testMode) };
}

/**
 * Makes the page that a form leads to.
 * @param shown the page with the secret
 * @param again the page without it, by what the form made; null if that is not known
 */
export function showOnce(
  shown: (parts: ConsoleParts, request: PersonalRequest, made: Made) => Promise<ScreenAnswer>,
  again: (request: PersonalRequest, madeId: string | null) => ScreenAnswer,
): Show {
  return async (parts, request) => {
    // Programs that look whether a page is there must not use up the one time that it is shown.
    const isRead = request.method === 'GET';
    const form = sentForm(request, request.path.once ?? '');
    const since = new Date(request.now.getTime() - shownWithin);
    const taken = isRead
      ? await act(parts, request, [], ({ db: { sql } }) => db.takeSecret(sql, form, since))
      : undefined;
    if (!taken?.sealedSecret || taken.madeId === null) return again(request, taken?.madeId ?? null);
    return shown(parts, request, { id: taken.madeId, secret: parts.secrets.decrypt(taken.sealedSecret) });
  };
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function sentForm({ person }: PersonalRequest, id: string): db.SentForm {
  const { companyId, sessionId } = person.caller;
  if (sessionId === null) throw new Error('a console request has a session');
  return { companyId, sessionId, id };
}
