// Signing in and out of the console, by the operations that do so for everybody.
import { anonymous } from '../runtime/credentials/authentication.ts';
import { html, page } from '../runtime/html.ts';
import type { Performed } from '../runtime/in-process.ts';
import type { KeptSession, People } from '../runtime/people.ts';
import type { ScreenAnswer, ScreenRequest } from '../runtime/screens.ts';
import { type ConsoleParts, factsOf, type PersonalRequest } from './requests.ts';

const cookieName = 'console_session';
/** Seconds that a browser keeps the cookie: as long as a session can be renewed. */
const keptSeconds = 7 * 86_400;

/** What the cookie of a request keeps; undefined without one. */
export function keptSession(people: People, { headers }: ScreenRequest): KeptSession | undefined {
  const cookies = headers.cookie?.split(';').map((each) => each.trim()) ?? [];
  const own = cookies.find((each) => each.startsWith(`${cookieName}=`));
  return own === undefined ? undefined : people.read(own.slice(cookieName.length + 1));
}

function cookieOf({ baseUrl }: ConsoleParts, value: string, seconds: number): string {
  const secure = baseUrl().startsWith('https:') ? '; Secure' : '';
  return `${cookieName}=${value}; Path=/console; HttpOnly; SameSite=Lax; Max-Age=${seconds}${secure}`;
}

/** Only within the console: nobody is led elsewhere. */
const nextOf = (given: string | null): string =>
  given !== null && /^\/console\/[\w/?=&-]*$/.test(given) ? given : '/console/messages';

export async function signIn(parts: ConsoleParts, request: ScreenRequest): Promise<ScreenAnswer> {
  const { form, query, now } = request;
  const next = nextOf((form ?? query).get('next'));
  if (!form) return signInForm(200, next, '');
  const body = { email: form.get('email') ?? '', password: form.get('password') ?? '' };
  const answer = await token(parts, request, 'password', body);
  const session = sessionOf(answer, now.getTime());
  if (session) return { redirect: next, cookie: cookieOf(parts, parts.people.keep(session), keptSeconds) };
  const why =
    answer.status === 429 ? 'Too many attempts. Try again in a while.' : 'The email address or the password is wrong.';
  return signInForm(answer.status === 429 ? 429 : 401, next, why, body.email);
}

/** The page once more, under a session that was renewed; undefined where it cannot be. */
export async function renewed(
  parts: ConsoleParts,
  request: ScreenRequest,
  { refreshToken, signedInAt }: KeptSession,
): Promise<ScreenAnswer | undefined> {
  const answer = await token(parts, request, 'refresh_token', { refresh_token: refreshToken });
  const session = sessionOf(answer, signedInAt);
  return session && { redirect: request.address, cookie: cookieOf(parts, parts.people.keep(session), keptSeconds) };
}

export async function signOut(parts: ConsoleParts, { person, form }: PersonalRequest): Promise<ScreenAnswer> {
  const by = { caller: person.caller, configVersion: 0 };
  if (form) await parts.perform({ operationId: 'endSession', by, path: {} });
  return { redirect: '/console/sign-in', cookie: cookieOf(parts, '', 0) };
}

function token(
  { perform }: ConsoleParts,
  request: ScreenRequest,
  grant_type: 'password' | 'refresh_token',
  body: object,
): Promise<Performed> {
  const by = { caller: anonymous(factsOf(request)), configVersion: 0 };
  return perform({ operationId: 'createSession', by, path: {}, query: { grant_type }, body });
}

function sessionOf({ status, body }: Performed, signedInAt: number): KeptSession | undefined {
  if (status !== 200) return undefined;
  const { access_token: own, refresh_token: refreshToken } = body as { access_token: string; refresh_token: string };
  return { token: own, refreshToken, signedInAt };
}

function signInForm(status: number, next: string, problem: string, email = ''): ScreenAnswer {
  const alert = problem === '' ? null : html`<p role="alert">${problem}</p>`;
  const body = html`${alert}
<form method="post" action="/console/sign-in">
<input type="hidden" name="next" value="${next}">
<label for="email">Email</label>
<input id="email" name="email" type="email" autocomplete="username" required value="${email}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required>
<button>Sign in</button>
</form>`;
  return { status, html: page('Sign in', body) };
}
