// Password reset: an email with a link that works once for an hour, and the page behind it.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Brand, findBrand } from '../../db/access/logos.ts';
import {
  endUserSessions,
  findSignIn,
  lockUserSignIn,
  type SignInRow,
  updatePassword,
} from '../../db/access/sessions.ts';
import { insertMail } from '../../db/messaging/mails.ts';
import { hashPassword } from '../../runtime/credentials/passwords.ts';
import { sha256 } from '../../runtime/credentials/secrets.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { PageAnswer, PageRequest, PageResponse } from '../../runtime/http/page-routes.ts';
import { html, page } from '../../runtime/pages/html.ts';
import { renderBrandedPage } from '../pages/brand.ts';
import { fillLabels } from '../pages/field-labels.ts';
import { errorSummary, field, type Typed } from '../pages/forms.ts';
import { type ConsoleParts, toRequestFacts } from '../pages/requests.ts';
import { findPasswordProblem, passwordFields } from './password.ts';

/** The rate limit of password resets per IP address. Viewing the page counts too. */
export const newPasswordPolicy = { 'new-password': [{ limit: 20, window: 15 * 60_000 }] };

const purpose = 'new password';
/** Milliseconds. */
const linkTtlMs = 60 * 60_000;
/**
 * Milliseconds until the response, longer than sending an email takes. It hides whether an account
 * exists.
 */
const minResponseMs = 500;

/**
 * The payload of a link. `signIn` is a digest of the current email and password, so that any change
 * of them invalidates the link.
 */
type Link = readonly [companyId: string, userId: string, until: number, signIn: string];

const digestSignIn = ({ email, passwordHash }: Pick<SignInRow, 'email' | 'passwordHash'>): string =>
  sha256(`${email}\n${passwordHash}`).toString('base64url');

export async function showForgottenPassword(parts: ConsoleParts, request: PageRequest): Promise<PageResponse> {
  const { form } = request;
  if (!parts.mailIsSent)
    return {
      status: 200,
      html: page(
        'Reset your password',
        html`<p role="alert">This server does not send email. Ask its operator to reset your password.</p>
<p><a href="/console/sign-in">Back to sign in</a></p>`,
      ),
    };
  const email = form?.get('email')?.trim().toLowerCase() ?? '';
  if (!form || email === '') return askingForm();
  // The same response after the same time for every address, so that accounts cannot be enumerated.
  await Promise.all([writeMail(parts, request, email), sleep(minResponseMs)]);
  const body = html`<p role="status">If there is an account for ${email}, we have sent an email with a link. The link works once and expires after one hour.</p>
<p>No email after a few minutes? Check your spam folder, and make sure that this is the address of your account.</p>
<p><a href="/console/sign-in">Back to sign in</a></p>`;
  return { status: 200, html: page('Check your email', body) };
}

function askingForm(): PageAnswer {
  const body = html`<p>We will email you a link to choose a new password.</p>
<form method="post" action="/console/forgotten-password">
${field('email', 'Email', {}, { type: 'email', autocomplete: 'username', required: true })}
<button>Send link</button>
</form>
<p><a href="/console/sign-in">Back to sign in</a></p>`;
  return { status: 200, html: page('Reset your password', body) };
}

async function writeMail(parts: ConsoleParts, request: PageRequest, email: string): Promise<void> {
  const { people, secrets, tokens, baseUrl } = parts;
  const { now } = request;
  if (!(await parts.takeResetMail(email, now))) return;
  const facts = toRequestFacts(request);
  const found = await people.actForNobody(facts, null, now, ({ db: { sql } }) => findSignIn(sql, email));
  if (!found?.isActive) return;
  const { companyId, userId, fullName } = found;
  const link: Link = [companyId, userId, now.getTime() + linkTtlMs, digestSignIn(found)];
  const address = `${baseUrl()}/console/new-password?link=${tokens.write(purpose, link)}`;
  await people.actForNobody(facts, companyId, now, async ({ db: { sql, record } }) => {
    const data = { full_name: fullName, sealed_link: secrets.encrypt(address) };
    await insertMail(sql, { companyId, recipient: found.email, template: 'new_password', data }, now);
    record({
      action: 'user.password_forgotten',
      object: 'users',
      recordId: userId,
      companyId,
      actor: { kind: 'user', id: userId, name: fullName },
    });
  });
}

export async function showNewPassword(parts: ConsoleParts, request: PageRequest): Promise<PageResponse> {
  const { form, query, now } = request;
  const text = (form ?? query).get('link') ?? '';
  const [companyId, userId, until = 0, signIn] = (parts.tokens.read(purpose, text) ?? []) as Partial<Link>;
  if (!companyId || !userId || until <= now.getTime()) return deadLink;
  const facts = toRequestFacts(request);
  const readBrand = () =>
    parts.people.actForNobody(facts, companyId, now, ({ db: { sql } }) => findBrand(sql, companyId));
  if (!form) {
    const found = await parts.people.actForNobody(facts, null, now, ({ db: { sql } }) =>
      lockUserSignIn(sql, companyId, userId),
    );
    return found && digestSignIn(found) === signIn ? choosingForm(200, text, await readBrand()) : deadLink;
  }
  const problem = findPasswordProblem(form);
  if (problem) return choosingForm(400, text, await readBrand(), { refused: validationFailed([problem], 400) });
  // Hashed before the transaction, because hashing is slow.
  const passwordHash = await hashPassword(form.get('password') ?? '');
  const isChanged = await parts.people.actForNobody(facts, null, now, async ({ db: { sql, record } }) => {
    // If two requests use the link at the same time, the second one sees the new password and
    // fails.
    const found = await lockUserSignIn(sql, companyId, userId);
    if (!found || digestSignIn(found) !== signIn) return false;
    await updatePassword(sql, companyId, userId, passwordHash);
    await endUserSessions(sql, companyId, userId, now);
    record({
      action: 'user.password_reset',
      object: 'users',
      recordId: userId,
      companyId,
      actor: { kind: 'user', id: userId, name: found.fullName },
    });
    return true;
  });
  return isChanged ? { redirect: '/console/sign-in?done=password' } : deadLink;
}

const deadLink: PageAnswer = {
  status: 410,
  html: page(
    'This link has expired',
    html`<p role="alert">A link works once, for one hour, and only until the password is changed.</p>
<p><a href="/console/forgotten-password">Request a new link</a></p>`,
  ),
};

function choosingForm(status: number, link: string, brand: Brand | undefined, typed: Typed = {}): PageAnswer {
  const body = html`${errorSummary(typed)}
<p>This signs you out of all other sessions.</p>
<form method="post" action="/console/new-password">
<input type="hidden" name="link" value="${link}">
${passwordFields(typed)}
<button>Change password</button>
</form>`;
  return renderBrandedPage(status, 'Choose a new password', fillLabels(body), brand);
}
