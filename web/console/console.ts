// The console: its routes, sessions, form checks and error pages.
import { ApiError } from '../../runtime/errors.ts';
import type { PageRequest, PageResponse, PageRoute } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { runInTimeZone } from '../../runtime/pages/time-zone.ts';
import { showConsent } from '../consent/consent.ts';
import { requireConfirmation } from '../pages/confirmation.ts';
import { describeError } from '../pages/forms.ts';
import { consolePage, listPlaces } from '../pages/layout.ts';
import {
  buildAddress,
  buildHomeAddress,
  type ConsoleParts,
  type PersonalRequest,
  plainPage,
  type Show,
  toRequestFacts,
  toSignIn,
} from '../pages/requests.ts';
import { mintKey, newKey, revokeKey, rotateKey, saveWriteMode, showKey, showKeys, showNewKey } from './api-keys.ts';
import { revokeApp, showApps } from './apps.ts';
import { showAuditLog } from './audit-log.ts';
import { decideRun, showRun } from './campaign-runs.ts';
import { decideChangeSet, showChangeSet, showChangeSets } from './change-sets.ts';
import { showComponents } from './components-page.ts';
import { showForgottenPassword, showNewPassword } from './forgotten-password.ts';
import { showHome } from './home.ts';
import { changeSetup, importUpload, showNewImport, startFromDryRun, uploadImport } from './import-setup.ts';
import { cancelImport, downloadErrors, showImport, showImports, showUndo, undoImport } from './imports.ts';
import { decideDraft, decideMessages, showMessage, showMessages } from './messages.ts';
import { readNotifications, showNotifications } from './notifications.ts';
import { addNode, changeBranch, changeTeam, showBranch, showOrganization, showTeam } from './organization.ts';
import { changePassword, showPassword } from './password.ts';
import { changePerson, invitePerson, newPerson, showNewPersonPassword, showPeople, showPerson } from './people.ts';
import { openPortal, showPlan, startCheckout } from './plan.ts';
import { changePlan, showConfirmation } from './plan-change.ts';
import { questions } from './questions.ts';
import { showRecord, showRecords } from './records.ts';
import { showRequest, showRequests } from './request-log.ts';
import { endOneSession, endOtherSessions, showSessions } from './sessions.ts';
import { readSession, renewSession, signIn, signOut } from './sign-in.ts';
import { replayDelivery, showDelivery } from './webhook-deliveries.ts';
import {
  changeWebhook,
  createWebhook,
  newWebhook,
  removeWebhook,
  rotateSecret,
  sendAgain,
  showNewSecret,
  showWebhook,
  showWebhooks,
  testWebhook,
} from './webhooks.ts';
import { changeLogo, logoUpload, removeLogo, showWorkspace } from './workspace.ts';

/** The rate limit of console pages per IP address. Many people may share one address. */
export const consolePolicy = { console: [{ limit: 600, window: 60_000 }] };

/** One address: a page, the action of a form, or both. */
interface Route {
  path: string;
  show?: Show;
  send?: Show;
  /** Requests that require a recent sign-in. */
  recent?: 'all' | 'send';
  /** The file that the form uploads, and the scope without which it is not received. */
  upload?: NonNullable<PageRoute['upload']> & { scope: string };
}

const uuid = '[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}';
const key = `/console/api-keys/(?<id>${uuid})`;
const webhook = `/console/webhooks/(?<id>${uuid})`;
const importPath = `/console/imports/(?<id>${uuid})`;
const delivery = `${webhook}/deliveries/(?<delivery>${uuid})`;

const routes: readonly Route[] = [
  { path: '/console/?', show: showHome },
  { path: '/console/sign-out', send: signOut },
  { path: '/console/messages', show: showMessages, send: decideMessages, recent: 'send' },
  { path: `/console/messages/(?<id>${uuid})`, show: showMessage, send: decideDraft, recent: 'send' },
  {
    path: `/console/campaigns/(?<campaign>${uuid})/runs/(?<run>${uuid})`,
    show: showRun,
    send: decideRun,
    recent: 'send',
  },
  { path: '/console/change-sets', show: showChangeSets },
  { path: `/console/change-sets/(?<id>${uuid})`, show: showChangeSet, send: decideChangeSet, recent: 'send' },
  { path: '/console/api-keys', show: showKeys },
  { path: '/console/api-keys/new', show: newKey, send: mintKey, recent: 'all' },
  { path: `/console/api-keys/secret/(?<once>${uuid})`, show: showNewKey },
  { path: key, show: showKey },
  { path: `${key}/rotate`, send: rotateKey, recent: 'send' },
  { path: `${key}/revoke`, send: requireConfirmation(questions.revokeKey, revokeKey), recent: 'send' },
  { path: `${key}/write-mode`, send: saveWriteMode, recent: 'send' },
  { path: '/console/apps', show: showApps },
  { path: `/console/apps/(?<id>${uuid})`, send: requireConfirmation(questions.revokeApp, revokeApp), recent: 'send' },
  { path: '/console/consent/(?<uid>[\\w-]{10,50})', show: askConsent, send: askConsent },
  { path: '/console/webhooks', show: showWebhooks },
  { path: '/console/webhooks/new', show: newWebhook, send: createWebhook, recent: 'all' },
  { path: `/console/webhooks/secret/(?<once>${uuid})`, show: showNewSecret },
  { path: webhook, show: showWebhook },
  { path: `${webhook}/(?<to>enable|disable)`, send: changeWebhook },
  { path: `${webhook}/test`, send: testWebhook },
  { path: `${webhook}/rotate`, send: rotateSecret, recent: 'send' },
  { path: `${webhook}/delete`, send: requireConfirmation(questions.removeWebhook, removeWebhook), recent: 'send' },
  { path: `${webhook}/(?<how>recover|replay)`, send: sendAgain },
  { path: delivery, show: showDelivery },
  { path: `${delivery}/replay`, send: replayDelivery },
  { path: '/console/imports', show: showImports },
  { path: '/console/imports/new', show: showNewImport, send: uploadImport, upload: importUpload },
  { path: importPath, show: showImport },
  { path: `${importPath}/setup`, show: showImport, send: changeSetup },
  { path: `${importPath}/repeat`, show: showImport, send: startFromDryRun },
  { path: `${importPath}/errors\\.csv`, show: downloadErrors },
  { path: `${importPath}/undo`, show: showUndo, send: undoImport },
  { path: `${importPath}/cancel`, send: cancelImport },
  { path: '/console/records', show: showRecords },
  { path: `/console/records/(?<object>[a-z][a-z0-9:_-]{0,62})/(?<id>${uuid})`, show: showRecord },
  { path: '/console/notifications', show: showNotifications },
  { path: '/console/notifications/read', send: readNotifications },
  { path: '/console/organization', show: showOrganization, send: addNode, recent: 'send' },
  {
    path: `/console/organization/branches/(?<id>${uuid})`,
    show: showBranch,
    send: requireConfirmation(questions.removeBranch, changeBranch),
    recent: 'send',
  },
  {
    path: `/console/organization/teams/(?<id>${uuid})`,
    show: showTeam,
    send: requireConfirmation(questions.removeTeam, changeTeam),
    recent: 'send',
  },
  { path: '/console/workspace', show: showWorkspace, send: changeLogo, upload: logoUpload },
  { path: '/console/workspace/remove-logo', send: requireConfirmation(questions.removeLogo, removeLogo) },
  { path: '/console/people', show: showPeople },
  { path: '/console/people/new', show: newPerson, send: invitePerson, recent: 'all' },
  { path: `/console/people/password/(?<once>${uuid})`, show: showNewPersonPassword },
  {
    path: `/console/people/(?<id>${uuid})`,
    show: showPerson,
    send: requireConfirmation(questions.removeAccess, changePerson),
    recent: 'send',
  },
  { path: '/console/plan', show: showPlan },
  { path: '/console/plan/checkout', send: startCheckout },
  { path: '/console/plan/portal', send: openPortal },
  { path: '/console/plan/change', show: showConfirmation, send: changePlan },
  { path: '/console/audit-log', show: showAuditLog },
  { path: '/console/requests', show: showRequests },
  { path: `/console/requests/(?<id>${uuid})`, show: showRequest },
  { path: '/console/sessions', show: showSessions },
  { path: `/console/sessions/(?<id>${uuid})/end`, send: requireConfirmation(questions.endSession, endOneSession) },
  { path: '/console/sessions/end-others', send: requireConfirmation(questions.endOtherSessions, endOtherSessions) },
  { path: '/console/password', show: showPassword, send: changePassword },
  { path: '/console/_components', show: showComponents },
  { path: '/console/.*' },
];

/** The consent page requires the password itself, unless there is nothing to decide. */
function askConsent(parts: ConsoleParts, request: PersonalRequest): Promise<PageResponse> {
  return showConsent(parts, request, recentSignInMs);
}

/** Pages that a person with a temporary password can use before changing it. */
const allowedBeforePasswordChange = new Set(['/console/password', '/console/sign-out']);

/** @param next where the person continues after changing the password */
const redirectToPassword = (next: string): PageResponse => ({
  redirect: ['', '/console'].includes(next)
    ? '/console/password'
    : `/console/password?${new URLSearchParams({ next })}`,
});

/** Files that the people of a company may upload at the same time. More could fill the disk. */
const maxUploads = 2;

export function createConsoleRoutes(parts: ConsoleParts): PageRoute[] {
  /** Uploads in progress, by company. */
  const uploads = new Map<string, number>();
  const screens: PageRoute[] = [
    {
      name: 'console_sign_in',
      path: /^\/console\/sign-in$/,
      show: (request) => signIn(parts, request),
    },
    {
      name: 'console_forgotten_password',
      path: /^\/console\/forgotten-password$/,
      limit: 'new-password',
      show: (request) => showForgottenPassword(parts, request),
    },
    {
      name: 'console_new_password',
      path: /^\/console\/new-password$/,
      limit: 'new-password',
      show: (request) => showNewPassword(parts, request),
    },
    ...routes.map((route) => ({
      name: 'console',
      path: new RegExp(`^${route.path}$`),
      limit: 'console',
      ...(route.upload ? { upload: route.upload } : {}),
      show: (request: PageRequest) => handleWithSession(parts, request, route, uploads),
    })),
  ];
  return screens.map((screen) => ({
    ...screen,
    show: async (request) => (isForeign(request, new URL(parts.baseUrl())) ? foreignForm : screen.show(request)),
  }));
}

/** Returns true if a page of another origin sent the form, according to the browser's headers. */
function isForeign({ form, receive, headers }: PageRequest, base: URL): boolean {
  if (form === undefined && receive === undefined) return false;
  if (!['same-origin', 'none', undefined].includes(headers['sec-fetch-site'] as string | undefined)) return true;
  return headers.origin !== undefined && !isOwnOrigin(headers.origin, headers.host, base);
}

/**
 * Returns true if the origin is this server, by its configured address or by the Host of the
 * request.
 */
function isOwnOrigin(origin: string, host: string | undefined, base: URL): boolean {
  // "null" means a sandboxed frame or a page that hides its origin. Our pages do neither.
  const page = URL.parse(origin);
  return page !== null && (page.host === base.host ? page.origin === base.origin : page.host === host);
}

const foreignForm = plainPage(
  403,
  'Form rejected',
  'This form was sent from another site. Open the page on this server and try again.',
);

/**
 * Serves signed-in people and renews their session if needed. Redirects all others to the sign-in
 * page.
 */
async function handleWithSession(
  parts: ConsoleParts,
  request: PageRequest,
  route: Route,
  uploads: Map<string, number>,
): Promise<PageResponse> {
  const kept = readSession(parts.people, request);
  if (!kept) return toSignIn(returnAddress(request, route));
  const found = await parts.people.find(kept, toRequestFacts(request), request.now);
  const met = found ? { person: found, cookie: undefined } : await renewSession(parts, request, kept);
  if (!met) return toSignIn(returnAddress(request, route));
  const { person } = met;
  const answerTo = (form: URLSearchParams | undefined, received?: Pick<PersonalRequest, 'file' | 'refused'>) => {
    const testMode = (form ?? request.query).get('mode') === 'test';
    const personal = { ...request, ...received, form, person, testMode };
    return runInTimeZone(person.timezone, () => answered(parts, personal, route));
  };
  const { receive } = request;
  const answer = receive
    ? (rejectUpload({ ...request, person, testMode: false }, route, uploads) ??
      (await countUpload(uploads, person, async () => {
        const { form, file, refused } = await receive((fields) => parts.people.isOwnForm(person, fields));
        return answerTo(form, { file, refused });
      })))
    : await answerTo(request.form);
  return met.cookie !== undefined && ('html' in answer || 'redirect' in answer)
    ? { cookie: met.cookie, ...answer }
    : answer;
}

/** Returns the response to a person whose file is not received; undefined if it is. */
function rejectUpload(
  request: PersonalRequest,
  { upload }: Route,
  uploads: ReadonlyMap<string, number>,
): PageResponse | undefined {
  const { caller } = request.person;
  if (caller.mustChangePassword) return redirectToPassword('');
  if (upload && !caller.grants.allows(upload.scope))
    return errorPage(
      request,
      new ApiError('FORBIDDEN_SCOPE', 'You cannot upload files here.', { required_scopes: [upload.scope] }),
    );
  if ((uploads.get(caller.companyId) ?? 0) < maxUploads) return undefined;
  const text = `${maxUploads} files are being uploaded to this workspace. Wait until one has arrived, and try again.`;
  return problemPage(request, 429, 'Too many uploads', text);
}

/** Runs an upload, which counts for its company until it ends. */
async function countUpload<Result>(
  uploads: Map<string, number>,
  { caller: { companyId } }: PersonalRequest['person'],
  upload: () => Promise<Result>,
): Promise<Result> {
  uploads.set(companyId, (uploads.get(companyId) ?? 0) + 1);
  try {
    return await upload();
  } finally {
    const left = (uploads.get(companyId) ?? 1) - 1;
    if (left > 0) uploads.set(companyId, left);
    else uploads.delete(companyId);
  }
}

async function answered(parts: ConsoleParts, request: PersonalRequest, route: Route): Promise<PageResponse> {
  const { form, person, testMode, address, now } = request;
  const [path = ''] = address.split('?');
  // A rejected form may have ended before its token, and changes nothing.
  const isCutOff = request.refused !== undefined && !form?.has('token');
  if (form && !isCutOff && !parts.people.isOwnForm(person, form))
    return problemPage(
      request,
      403,
      'Form rejected',
      'This form belongs to another session. Reload the page and try again.',
    );
  if (person.caller.mustChangePassword && !allowedBeforePasswordChange.has(path))
    return redirectToPassword(form ? '' : address);
  const show = form ? route.send : route.show;
  if (!show) return problemPage(request, 404, 'Not found', 'This page does not exist.');
  const isStale = now.getTime() - person.session.signedInAt > recentSignInMs;
  if (isStale && (route.recent === 'all' || (form && route.recent === 'send')))
    return toSignIn(returnAddress(request, route, testMode), true);
  try {
    return await show(parts, request);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return errorPage(request, error);
  }
}

/** Milliseconds after a sign-in in which sensitive actions need no password. */
const recentSignInMs = 30 * 60_000;

/** Returns the page to come back to: the requested page, or the page that contains the form. */
function returnAddress(
  { form, address }: PageRequest,
  { show }: Route,
  testMode = form?.get('mode') === 'test',
): string {
  if (!form) return address;
  const [path = ''] = address.split('?');
  return buildAddress(show ? path : path.slice(0, path.lastIndexOf('/')), testMode);
}

function errorPage(request: PersonalRequest, error: ApiError): PageResponse {
  const { caller } = request.person;
  const { status, details } = error;
  if (status === 404)
    return problemPage(request, 404, 'Not found', 'This page does not exist, or its content was deleted.');
  const needed = (details?.required_scopes as string[] | undefined) ?? [];
  if (status !== 403 || needed.length === 0)
    return problemPage(request, status, 'Request failed', describeError(error));
  const what = needed.join(' or ');
  const text = html`This requires the permission ${what}, which your roles do not have. Ask an administrator of ${isolateText(caller.companyName)}.`;
  return problemPage(request, 403, 'Access denied', text);
}

function problemPage(request: PersonalRequest, status: number, title: string, text: string | Html): PageResponse {
  const back = listPlaces(request.person.caller).findLast(({ path }) => request.address.startsWith(path));
  const way =
    back &&
    html`<p><a href="${back.path === '/console' ? buildHomeAddress(request.testMode) : buildAddress(back.path, request.testMode)}">Back to ${back.name}</a></p>`;
  return consolePage(request, status, title, html`<p role="alert">${text}</p>${way ?? null}`);
}
