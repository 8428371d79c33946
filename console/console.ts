// The console: what the API rightly leaves to people. Its pages, and who may see them.
import { ApiError } from '../runtime/errors.ts';
import { html } from '../runtime/html.ts';
import type { Screen, ScreenAnswer, ScreenRequest } from '../runtime/screens.ts';
import { revokeApp, showApps } from './apps.ts';
import { consent } from './consent.ts';
import { decideDraft, decideRun, showMessages, showRun } from './messages.ts';
import {
  type ConsoleParts,
  consolePage,
  factsOf,
  inMode,
  type PersonalRequest,
  plainPage,
  toSignIn,
} from './requests.ts';
import { keptSession, renewed, signIn, signOut } from './sign-in.ts';

type Show = (parts: ConsoleParts, request: PersonalRequest) => Promise<ScreenAnswer>;

const uuid = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}';
/** Milliseconds after which the password is asked for again before something is decided. */
const recently = 30 * 60_000;

export function consoleScreens(parts: ConsoleParts): Screen[] {
  const personal = (path: string, show: Show, home = '/console/messages'): Screen => ({
    name: 'console',
    path: new RegExp(`^${path}$`),
    show: (request) => guarded(parts, request, show, home),
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
    personal('/console/apps', showApps, '/console/apps'),
    personal(`/console/apps/(?<id>${uuid})/revoke`, recent(revokeApp, '/console/apps'), '/console/apps'),
    {
      name: 'console',
      path: /^\/console\/consent\/(?<uid>[\w-]{10,50})$/,
      show: (request) => guarded(parts, request, (all, own) => consent(all, own, recently), request.address),
    },
  ];
}

/** @param home where somebody is led who sent a form and is not signed in */
async function guarded(parts: ConsoleParts, request: ScreenRequest, show: Show, home: string): Promise<ScreenAnswer> {
  const session = keptSession(parts.people, request);
  const here = { path: request.form ? home : request.address };
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
    return consolePage(
      { ...request, person, testMode },
      error.status,
      'That did not work',
      html`<p role="alert">${error.message}</p>
<p><a href="${inMode('/console/messages', testMode)}">Back to the messages</a></p>`,
    );
  }
}

/** Lets a decision pass only shortly after the password was given: a screen that was left open decides nothing. */
function recent(show: Show, home = '/console/messages'): Show {
  return async (parts, request) => {
    const { person, now, testMode } = request;
    if (now.getTime() - person.session.signedInAt <= recently) return show(parts, request);
    return toSignIn({ path: inMode(home, testMode) });
  };
}
