// A request of the console: who makes it, in which mode, and the page that answers it.
import type { RequestFacts } from '../runtime/credentials/authentication.ts';
import { type Html, html, page } from '../runtime/html.ts';
import type { Perform } from '../runtime/in-process.ts';
import type { People, Person } from '../runtime/people.ts';
import { newRequestId } from '../runtime/request-ids.ts';
import type { ScreenAnswer, ScreenRequest } from '../runtime/screens.ts';

/** What an app asks a person for, and what becomes of the answer. */
export interface Consents {
  /** undefined: nothing is asked in this browser, or it was too long ago. */
  find(request: ScreenRequest): Promise<AskedConsent | undefined>;
  /** Lets the app act for a user, by what the user grants it. @returns where the browser goes on */
  allow(request: ScreenRequest, userId: string, grantId: string): Promise<string>;
  /** @returns where the browser goes on */
  deny(request: ScreenRequest): Promise<string>;
}

export interface AskedConsent {
  clientId: string;
  clientName: string;
  /** Where the answer goes. */
  redirectUri: string;
  /** All that the app may name. */
  redirectUris: readonly string[];
  /** The app wants the person to be asked, whatever was allowed before. */
  mustAsk: boolean;
}

export interface ConsoleParts {
  people: People;
  /** Of the OAuth server; undefined where another issuer is trusted. */
  consents: Consents | undefined;
  perform: Perform;
  /** Where the server is reached; https: cookies go over it alone. */
  baseUrl: () => string;
}

/** A request of somebody who is signed in. */
export interface PersonalRequest extends ScreenRequest {
  person: Person;
  testMode: boolean;
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
