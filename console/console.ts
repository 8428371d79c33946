// The console: what the API rightly leaves to people. Its pages, and who may see them.
import type { RequestFacts } from '../runtime/credentials/authentication.ts';
import { ApiError } from '../runtime/errors.ts';
import { type Html, html, page } from '../runtime/html.ts';
import type { Perform } from '../runtime/in-process.ts';
import type { People, Person } from '../runtime/people.ts';
import { newRequestId } from '../runtime/request-ids.ts';
import type { Screen, ScreenAnswer, ScreenRequest } from '../runtime/screens.ts';
import { decideDraft, decideRun, showMessages, showRun } from './messages.ts';
import { keptSession, renewed, signIn, signOut } from './sign-in.ts';

export interface ConsoleParts {
  people: People;
  perform: Perform;
  /** Where the server is reached; https: cookies go over it alone. */
  baseUrl: () => string;
}

/** A request of somebody who is signed in. */
export interface PersonalRequest extends ScreenRequest {
  person: Person;
  testMode: boolean;
}

type Show = (parts: ConsoleParts, request: PersonalRequest) => Promise<ScreenAnswer>;

const uuid = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}';
/** Milliseconds after which the password is asked for again before something is decided. */
const recently = 30 * 60_000;

export function consoleScreens(parts: ConsoleParts): Screen[] {
  const personal = (path: string, show: Show): Screen => ({
    name: 'console',
    path: new RegExp(`^${path}$`),
    show: (request) => guarded(parts, request, show),
  });
  return [
    { name: 'console', path: /^\/console\/?$/, show: async () => ({ redirect: '/console/messages' }) },
    { name: 'console_sign_in', path: /^\/console\/sign-in$/, show: (request) => signIn(parts, request) },
    personal('/console/sign-out', signOut),
    personal('/console/messages', showMessages),
    personal(`/console/messages/(?<id>${uuid})`, recent(decideDraft)),
    personal(`/console/campaigns/(?<campaign>${uuid})/runs/(?<run>${uuid})`, (all, request) =>
      request.form ? recent(decideRun)(all, request) : showRun(all, request),
    ),
  ];
}

/** Who somebody is that asks for a page. */
export const factsOf = ({ ip, headers }: ScreenRequest): RequestFacts => ({
  ...{ requestId: newRequestId(), ip },
  userAgent: headers['user-agent']?.slice(0, 500) ?? null,
});

/** The address of a page, in the mode of the request. */
export const inMode = (path: string, testMode: boolean, more: Record<string, string> = {}): string => {
  const query = new URLSearchParams({ ...(testMode ? { mode: 'test' } : {}), ...more }).toString();
  return query === '' ? path : `${path}?${query}`;
};

/** Where somebody who is not signed in is led, and from there back. */
export const toSignIn = ({ path }: { path: string }): ScreenAnswer => ({
  redirect: `/console/sign-in?${new URLSearchParams({ next: path })}`,
});

async function guarded(parts: ConsoleParts, request: ScreenRequest, show: Show): Promise<ScreenAnswer> {
  const session = keptSession(parts.people, request);
  const here = { path: request.form ? '/console/messages' : request.address };
  if (!session) return toSignIn(here);
  const person = await parts.people.find(session, factsOf(request), request.now);
  if (!person) return (request.form ? undefined : await renewed(parts, request, session)) ?? toSignIn(here);
  if (request.form && !parts.people.isOwnForm(person, request.form))
    return plainPage(403, 'This form is not yours', 'Go back, load the page again, and send it once more.');
  const testMode = (request.form ?? request.query).get('mode') === 'test';
  try {
    return await show(parts, { ...request, person, testMode });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return consolePage({ ...request, person, testMode }, error.status, 'That did not work', html`<p role="alert">${error.message}</p>
<p><a href="${inMode('/console/messages', testMode)}">Back to the messages</a></p>`);
  }
}

/** Lets a decision pass only shortly after the password was given: a screen that was left open decides nothing. */
function recent(show: Show): Show {
  return async (parts, request) => {
    const { person, now, testMode } = request;
    if (now.getTime() - person.session.signedInAt <= recently) return show(parts, request);
    return toSignIn({ path: inMode('/console/messages', testMode) });
  };
}

/** A page with who is signed in, the mode, and the way out. */
export function consolePage(
  { person, testMode }: Pick<PersonalRequest, 'person' | 'testMode'>,
  status: number,
  title: string,
  body: Html,
): ScreenAnswer {
  const { caller, formToken } = person;
  const other = testMode
    ? html`Test mode. <a href="/console/messages">Show live mode</a>`
    : html`Live mode. <a href="/console/messages?mode=test">Show test mode</a>`;
  return {
    status,
    html: page(
      title,
      html`${body}
<hr>
<p class="note">${caller.actor.name ?? ''}, ${caller.companyName}. ${other}</p>
<form method="post" action="/console/sign-out">
<input type="hidden" name="token" value="${formToken}">
<button class="quiet">Sign out</button>
</form>`,
    ),
  };
}

export const plainPage = (status: number, title: string, text: string): ScreenAnswer => ({
  status,
  html: page(title, html`<p role="alert">${text}</p>`),
});
