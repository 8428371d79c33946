// Requests of the console: who makes them, in which mode, and how they call operations.
import type { Audience } from '../../domain/access/oauth-groups.ts';
import type { RequestFacts } from '../../runtime/credentials/authentication.ts';
import type { Acting, People, Person } from '../../runtime/credentials/people.ts';
import type { Secrets } from '../../runtime/credentials/secrets.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { ApiError } from '../../runtime/errors.ts';
import type { OperationId, Result } from '../../runtime/handler.ts';
import type { PageRequest, PageResponse } from '../../runtime/http/page-routes.ts';
import { newRequestId } from '../../runtime/http/request-ids.ts';
import { html, page } from '../../runtime/pages/html.ts';
import type { Perform } from '../../runtime/pipeline/in-process.ts';

/** The pending consent requests of apps, and how to answer them. */
export interface Consents {
  /** Returns the pending request of this browser. undefined: there is none, or it has expired. */
  find(request: PageRequest): Promise<AskedConsent | undefined>;
  /** Allows the app to act for a user within a grant. @returns the address to redirect to */
  allow(request: PageRequest, userId: string, grantId: string): Promise<string>;
  /** @returns the address to redirect to */
  deny(request: PageRequest): Promise<string>;
}

export interface AskedConsent {
  clientId: string;
  clientName: string;
  /** The API that the tokens are for. */
  audience: Audience;
  /**
   * The requested scopes, separated by spaces. They may include identity scopes and unknown ones.
   */
  scope: string;
  /** The redirect URI of the app. */
  redirectUri: string;
  /** True if the app demands a new confirmation, regardless of an existing grant. */
  mustAsk: boolean;
}

export interface ConsoleParts {
  people: People;
  /** undefined if another OAuth issuer is used. */
  consents: Consents | undefined;
  perform: Perform;
  /** Finds an operation of the API, with the scopes that it declares. @param path without a query */
  findOperation: (
    method: string,
    path: string,
  ) => { summary: string; template: string; parameters: Record<string, string>; scopes: string[] } | undefined;
  /** The public address of the server. With https, cookies are `Secure`. */
  baseUrl: () => string;
  /** False if the server sends no email. */
  mailIsSent: boolean;
  /**
   * Counts a sign-in attempt of an IP address, like the operation does.
   * @returns false if there were too many
   */
  takeSignIn: (ip: string, now: Date) => Promise<boolean>;
  /** Counts a password reset email. @returns false if the address received too many */
  takeResetMail: (email: string, now: Date) => Promise<boolean>;
  secrets: Pick<Secrets, 'encrypt' | 'decrypt'>;
  tokens: SignedTokens;
}

/** A request of a signed-in person. */
export interface PersonalRequest extends PageRequest {
  person: Person;
  testMode: boolean;
  /** Uploaded files by the name of their field, on pages that accept files. */
  files?: ReadonlyMap<string, Buffer>;
}

/** Renders a page or performs the action of a form. */
export type Show = (parts: ConsoleParts, request: PersonalRequest) => Promise<PageResponse>;

/**
 * Returns the request in live mode: for what both modes share, such as API keys and people, and for
 * what is about the person, whose sessions do not follow the clock of test mode.
 */
export const toLiveMode = (request: PersonalRequest): PersonalRequest => ({ ...request, testMode: false });

/** Returns the data of a request that authentication and audit need. */
export const toRequestFacts = ({ ip, headers }: PageRequest): RequestFacts => ({
  requestId: newRequestId(),
  ip,
  userAgent: headers['user-agent']?.slice(0, 500) ?? null,
});

/** Builds the address of a page in the current mode. Omits empty parameters. */
export const buildAddress = (path: string, testMode: boolean, more: Record<string, string> = {}): string => {
  const given = Object.entries({ mode: testMode ? 'test' : '', ...more }).filter(([, value]) => value !== '');
  const query = new URLSearchParams(Object.fromEntries(given)).toString();
  return query === '' ? path : `${path}?${query}`;
};

/**
 * Returns the address of the home page. It also names live mode, because the page chooses a mode if
 * none is given.
 */
export const buildHomeAddress = (testMode: boolean): string => `/console?mode=${testMode ? 'test' : 'live'}`;

/** Returns the address if it belongs to the console, or undefined. This prevents open redirects. */
export function toConsoleAddress(given: string | null): string | undefined {
  if (!given?.startsWith('/') || !URL.canParse(given, 'http://console')) return undefined;
  const { host, pathname, search } = new URL(given, 'http://console');
  return host === 'console' && `${pathname}/`.startsWith('/console/') ? pathname + search : undefined;
}

/**
 * Redirects to the sign-in page, which leads back to `path`.
 * @param again true if a signed-in person must enter the password again
 */
export const toSignIn = (path: string, again = false): PageResponse => ({
  redirect: `/console/sign-in?${new URLSearchParams({ next: path, ...(again ? { again: 'yes' } : {}) })}`,
});

export const plainPage = (status: number, title: string, text: string): PageResponse => ({
  status,
  html: page(title, html`<p role="alert">${text}</p>`),
});

interface Asked {
  path?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  idempotencyKey?: string;
}

/** The `data` of an operation's response. */
export type Data<Id extends OperationId> = Extract<Result<Id>, { data: unknown }>['data'];

/**
 * Performs an operation as the person, with the permissions of their roles.
 * @param asked empty query parameters are omitted
 * @throws ApiError if the operation fails
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

/** Runs statements as the person, with the same checks as operations. */
export function act<Result>(
  { people }: Pick<ConsoleParts, 'people'>,
  { person, testMode, now }: PersonalRequest,
  scopes: readonly string[],
  work: (acting: Acting) => Promise<Result>,
): Promise<Result> {
  return people.act(person, testMode, scopes, now, work);
}
