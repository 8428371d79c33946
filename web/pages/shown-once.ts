// Secrets created by forms: created once per form, shown once on a separate page.
import * as db from '../../db/access/shown-secrets.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { newRequestId } from '../../runtime/http/request-ids.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { act, buildAddress, type ConsoleParts, type PersonalRequest, type Show, toLiveMode } from './requests.ts';

/**
 * Milliseconds in which a new secret can be shown. The redirect after the form leads there
 * immediately.
 */
const secretTtlMs = 10 * 60_000;
/**
 * Milliseconds in which a repeated form has no effect. A form stays usable for less time, because
 * it needs a recent sign-in.
 */
const formTtlMs = 60 * 60_000;

/** The created item. */
export interface Made {
  id: string;
  secret: string;
}

/** A hidden field with a unique key for each form that creates a secret. */
export const formKey = (): Html => html`<input type="hidden" name="once" value="${newRequestId()}">`;

/**
 * Creates a secret unless the form was already submitted, and redirects to the page that shows it.
 * Reloading that page creates nothing.
 * @param page the path of the page, without the key of the form
 * @throws ApiError if the work fails; the form can then be submitted again
 */
export async function makeOnce(
  parts: ConsoleParts,
  request: PersonalRequest,
  page: string,
  work: () => Promise<Made>,
): Promise<PageResponse> {
  const key = request.form?.get('once') ?? '';
  if (!uuid.test(key))
    throw new ApiError('VALIDATION_ERROR', 'This form is incomplete. Reload the page and try again.');
  const form = sentForm(request, key);
  const expiresAt = new Date(request.now.getTime() + formTtlMs);
  if (await act(parts, toLiveMode(request), [], ({ now, db: { sql } }) => db.claimForm(sql, form, now, expiresAt))) {
    const { id, secret } = await work().catch(async (error: unknown) => {
      await act(parts, toLiveMode(request), [], ({ db: { sql } }) => db.releaseForm(sql, form));
      throw error;
    });
    await act(parts, toLiveMode(request), [], ({ db: { sql } }) =>
      db.storeSecret(sql, form, id, parts.secrets.encrypt(secret)),
    );
  }
  return { redirect: buildAddress(`${page}/${key}`, request.testMode) };
}

/**
 * Builds the handler of the page that a form redirects to.
 * @param shown renders the page with the secret
 * @param again renders the page without the secret; the id is null if it is unknown
 */
export function showOnce(
  shown: (parts: ConsoleParts, request: PersonalRequest, made: Made) => Promise<PageResponse>,
  again: (request: PersonalRequest, madeId: string | null) => PageResponse,
): Show {
  return async (parts, request) => {
    // HEAD requests, such as link previews, must not use up the only view.
    const isRead = request.method === 'GET';
    const form = sentForm(request, request.path.once ?? '');
    const since = new Date(request.now.getTime() - secretTtlMs);
    const taken = isRead
      ? await act(parts, toLiveMode(request), [], ({ db: { sql } }) => db.takeSecret(sql, form, since))
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
