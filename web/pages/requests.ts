// A request of the console: who makes it and in which mode, and what it asks of the operations.
import type { Audience } from '../../domain/access/oauth-groups.ts';
import type { RequestFacts } from '../../runtime/credentials/authentication.ts';
import type { Acting, People, Person } from '../../runtime/credentials/people.ts';
import type { Secrets } from '../../runtime/credentials/secrets.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { OperationId, Result } from '../../runtime/handler.ts';
import type { ScreenAnswer, ScreenRequest } from '../../runtime/http/page-routes.ts';
import { newRequestId } from '../../runtime/http/request-ids.ts';
import { html, page } from '../../runtime/pages/html.ts';
import type { Perform } from '../../runtime/pipeline/in-process.ts';

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
  /** What the tokens will open. */
  audience: Audience;
  /** What the app asks for by name, separated by spaces: identity scopes and unknown ones among it. */
  scope: string;
  /** Where the answer goes. */
  redirectUri: string;
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
  /** False where nobody receives mails. */
  mailIsSent: boolean;
  /** Counts a try of an address to sign in, as the operation does. @returns false where there were too many */
  takeSignIn: (ip: string, now: Date) => Promise<boolean>;
  /** Counts a mail with a link to a new password. @returns false where one address was written too many */
  takeResetMail: (email: string, now: Date) => Promise<boolean>;
  secrets: Pick<Secrets, 'encrypt' | 'decrypt'>;
  tokens: SignedTokens;
}

/** A request of somebody who is signed in. */
export interface PersonalRequest extends ScreenRequest {
  person: Person;
  testMode: boolean;
}

/** A page, or what a form on it does. */
export type Show = (parts: ConsoleParts, request: PersonalRequest) => Promise<ScreenAnswer>;

/** Who somebody is that asks for a page. */
export const factsOf = ({ ip, headers }: ScreenRequest): RequestFacts => ({
  requestId: newRequestId(),
  ip,
  userAgent: headers['user-agent']?.slice(0, 500) ?? null,
});

/** The address of a page, in the mode of the request. Empty texts are left out. */
export const inMode = (path: string, testMode: boolean, more: Record<string, string> = {}): string => {
  const given = Object.entries({ mode: testMode ? 'test' : '', ...more }).filter(([, value]) => value !== '');
  const query = new URLSearchParams(Object.fromEntries(given)).toString();
  return query === '' ? path : `${path}?${query}`;
};

/** The address of the first page. It names live mode, too: without a mode the page chooses one. */
export const homeIn = (testMode: boolean): string => `/console?mode=${testMode ? 'test' : 'live'}`;

/** An address of the console as it was given; undefined for any other, so that nobody is redirected to another site. */
export function consoleAddress(given: string | null): string | undefined {
  if (!given?.startsWith('/') || !URL.canParse(given, 'http://console')) return undefined;
  const { host, pathname, search } = new URL(given, 'http://console');
  return host === 'console' && `${pathname}/`.startsWith('/console/') ? pathname + search : undefined;
}

/** Where somebody who is not signed in is led, and from there back. @param again they are, and give their password once more */
export const toSignIn = (path: string, again = false): ScreenAnswer => ({
  redirect: `/console/sign-in?${new URLSearchParams({ next: path, ...(again ? { again: 'yes' } : {}) })}`,
});

export const plainPage = (status: number, title: string, text: string): ScreenAnswer => ({
  status,
  html: page(title, html`<p role="alert">${text}</p>`),
});

interface Asked {
  path?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  idempotencyKey?: string;
}

/** What an operation answers in `data`. */
export type Data<Id extends OperationId> = Extract<Result<Id>, { data: unknown }>['data'];

/**
 * Has an operation performed in the name of the person, with what their roles permit.
 * @param asked empty texts of the query are left out
 * @throws ApiError what the operation refuses, and why it failed
 */
export async function ask<Id extends OperationId>(
  { perform }: Pick<ConsoleParts, 'perform'>,
  { person, testMode }: Pick<PersonalRequest, 'person' | 'testMode'>,
  operationId: Id,
  { path = {}, query = {}, ...asked }: Asked = {},
): Promise<Data<Id>> {
  const { configVersion } = person;
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
  const by = { configVersion, caller: { ...person.caller, testMode } };
  const { status, body } = await perform({ operationId, by, path, query: given, ...asked });
  const answer = body as {
    data: Data<Id>;
    error: { code: ApiError['code']; message: string; details?: Record<string, unknown> };
  };
  if (status < 400) return answer.data;
  const { code, message, details } = answer.error;
  throw new ApiError(code, message, details, { status });
}

/** Does something in the name of the person with the statements that operations have. */
export function act<Result>(
  { people }: Pick<ConsoleParts, 'people'>,
  { person, testMode, now }: PersonalRequest,
  scopes: readonly string[],
  work: (acting: Acting) => Promise<Result>,
): Promise<Result> {
  return people.act(person, testMode, scopes, now, work);
}
