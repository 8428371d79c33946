// Signs people in to and out of the console through the public operations.
import type { Brand } from '../../db/access/logos.ts';
import { buildAnonymousCaller } from '../../runtime/credentials/authentication.ts';
import type { KeptSession, People, Person } from '../../runtime/credentials/people.ts';
import type { PageAnswer, PageRequest, PageResponse } from '../../runtime/http/page-routes.ts';
import { html } from '../../runtime/pages/html.ts';
import type { Performed } from '../../runtime/pipeline/in-process.ts';
import { renderBrandedPage, toBrand } from '../pages/brand.ts';
import { type ConsoleParts, type Show, toConsoleAddress, toRequestFacts } from '../pages/requests.ts';

const cookieName = 'console_session';
/** Lifetime of the cookie in seconds: as long as a session can be renewed. */
const cookieMaxAgeSeconds = 7 * 86_400;

/** Reads the session from the cookie. undefined if there is none. */
export function readSession(people: People, { headers }: PageRequest): KeptSession | undefined {
  const cookies = headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  const own = cookies.find((each) => each.startsWith(`${cookieName}=`));
  return own === undefined ? undefined : people.read(own.slice(cookieName.length + 1));
}

function buildCookie({ baseUrl }: ConsoleParts, value: string, seconds: number): string {
  const secure = baseUrl().startsWith('https:') ? '; Secure' : '';
  return `${cookieName}=${value}; Path=/console; HttpOnly; SameSite=Lax; Max-Age=${seconds}${secure}`;
}

const home = '/console';

const doneMessages: Readonly<Record<string, string>> = {
  password: 'Your password was changed. Sign in with the new one.',
  out: 'You are signed out.',
};

export async function signIn(parts: ConsoleParts, request: PageRequest): Promise<PageResponse> {
  const { form, query, now, ip } = request;
  const next = toConsoleAddress((form ?? query).get('next')) ?? home;
  if (!form) {
    const again = query.has('again');
    const shown = { next, again, done: doneMessages[query.get('done') ?? ''] };
    // The workspace is known from the session that continues.
    const person = again ? await findPerson(parts, request) : undefined;
    return signInForm(200, { ...shown, brand: person && toBrand(person) });
  }
  const body = { email: form.get('email') ?? '', password: form.get('password') ?? '' };
  const answer = (await parts.takeSignIn(ip, now)) ? await token(parts, request, 'password', body) : undefined;
  const session = answer && toKeptSession(answer, now.getTime());
  if (session) {
    await endPreviousSession(parts, request);
    return { redirect: next, cookie: buildCookie(parts, parts.people.keep(session), cookieMaxAgeSeconds) };
  }
  if (answer && answer.status >= 500)
    return signInForm(503, {
      next,
      email: body.email,
      problem: 'The service is temporarily unavailable. Try again shortly.',
    });
  return !answer || answer.status === 429
    ? signInForm(429, { next, email: body.email, problem: 'Too many attempts. Try again later.' })
    : signInForm(401, { next, email: body.email, problem: 'The email address or the password is wrong.' });
}

/** Ends the previous session of the browser, because a browser has only one. */
async function endPreviousSession(parts: ConsoleParts, request: PageRequest): Promise<void> {
  const person = await findPerson(parts, request);
  if (person) await end(parts, person);
}

/** Returns the person of the session in the cookie. undefined if there is none, or it has ended. */
async function findPerson({ people }: ConsoleParts, request: PageRequest): Promise<Person | undefined> {
  const session = readSession(people, request);
  return session && people.find(session, toRequestFacts(request), request.now);
}

const end = ({ perform }: ConsoleParts, { caller, configVersion }: Person): Promise<Performed> =>
  perform({ operationId: 'endSession', by: { caller, configVersion }, path: {} });

/**
 * Renews an expired session. Returns the person and the new cookie, or undefined if the session has
 * ended.
 */
export async function renewSession(
  parts: ConsoleParts,
  request: PageRequest,
  { refreshToken, signedInAt }: KeptSession,
): Promise<{ person: Person; cookie: string } | undefined> {
  const answer = await token(parts, request, 'refresh_token', { refresh_token: refreshToken });
  const session = toKeptSession(answer, signedInAt);
  const person = session && (await parts.people.find(session, toRequestFacts(request), request.now));
  return person && { person, cookie: buildCookie(parts, parts.people.keep(person.session), cookieMaxAgeSeconds) };
}

export const signOut: Show = async (parts, { person }) => {
  await end(parts, person);
  return { redirect: '/console/sign-in?done=out', cookie: buildCookie(parts, '', 0) };
};

function token(
  { perform }: ConsoleParts,
  request: PageRequest,
  grant_type: 'password' | 'refresh_token',
  body: object,
): Promise<Performed> {
  const by = { caller: buildAnonymousCaller(toRequestFacts(request)), configVersion: 0 };
  return perform({ operationId: 'createSession', by, path: {}, query: { grant_type }, body });
}

function toKeptSession({ status, body }: Performed, signedInAt: number): KeptSession | undefined {
  if (status !== 200) return undefined;
  const { access_token: own, refresh_token: refreshToken } = body as { access_token: string; refresh_token: string };
  return { token: own, refreshToken, signedInAt };
}

interface Shown {
  next: string;
  /** True if the person is signed in and must enter the password again. */
  again?: boolean;
  done?: string | undefined;
  problem?: string;
  email?: string;
  brand?: Brand | undefined;
}

function signInForm(status: number, { next, again = false, done, problem, email = '', brand }: Shown): PageAnswer {
  const body = html`${problem === undefined ? null : html`<p role="alert">${problem}</p>`}
${done === undefined ? null : html`<p role="status">${done}</p>`}
${again ? html`<p role="status">Enter your password again to continue. This action requires a recent sign-in.</p>` : null}
<form method="post" action="/console/sign-in">
<input type="hidden" name="next" value="${next}">
<label for="email">Email</label>
<input id="email" name="email" type="email" autocomplete="username" required value="${email}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required>
<button>Sign in</button>
</form>
<p><a href="/console/forgotten-password">Forgot password?</a></p>`;
  return renderBrandedPage(status, 'Sign in', body, brand);
}
