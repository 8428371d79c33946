// Whether a caller may run an operation: scopes, modules, and test keys on shared configuration.

import { moduleOf, platformScope } from '../../domain/access/scopes.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import { isObjectName } from '../../domain/objects/builtin.ts';
import type { Caller } from '../caller.ts';
import { ApiError, notFound } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

/** Whether a module is on for a workspace, and if not, why. @param modules the workspace's */
export type ModuleState = (module: string, modules: Modules) => 'on' | 'not_in_plan' | 'disabled_by_admin';

/** The server itself acts by scopes, as a key does; people at screens by all that their roles permit. */
const schemesOf: Readonly<Record<Caller['kind'], readonly Operation['requirements'][number]['scheme'][]>> = {
  api_key: ['apiKey'],
  oauth_client: ['oauth'],
  session: ['session'],
  person: ['session', 'apiKey'],
  gateway: ['signature'],
  system: ['apiKey'],
  anonymous: [],
};

/**
 * Lets a caller pass, with the reach that it has here, or refuses.
 * @throws ApiError 403 naming what is missing; 404 where the object of the path is not visible to the caller
 */
export function authorize(
  operation: Operation,
  caller: Caller,
  path: Record<string, string>,
  moduleState: ModuleState,
): void {
  if (caller.mustChangePassword && !operation.beforePasswordChange) throw passwordChangeRequired();
  const alternatives = operation.requirements.filter(({ scheme }) => schemesOf[caller.kind].includes(scheme));
  if (alternatives.length === 0) throw otherCredential(operation, caller);
  if (caller.grants.allows(platformScope) && !alternatives.some(({ scopes }) => scopes.includes(platformScope)))
    throw platformKey();
  const missing: string[][] = [];
  let opened: { byRole: boolean; scopes: string[] } | undefined;
  for (const alternative of alternatives) {
    const byRole = alternative.scheme === 'session';
    const scopes = alternative.scopes.map((scope) => scopeFor(scope, path, caller));
    const lacking = scopes.filter((scope) => (byRole ? !caller.scopes.includes(scope) : !caller.grants.allows(scope)));
    if (lacking.length === 0) {
      opened = { byRole, scopes };
      break;
    }
    missing.push(lacking);
  }
  if (!opened) throw lacks(missing, alternatives[0]?.scheme === 'session');
  if (!opened.byRole) for (const scope of opened.scopes) checkModule(moduleOf(scope), caller, moduleState);
  if (caller.reachOf) caller.reach = caller.reachOf(opened.scopes);
  if (operation.liveOnly && caller.testMode) {
    throw new ApiError('FORBIDDEN_SCOPE', 'Live mode and test mode share this setting. Change it with a live key.', {
      required_scopes: [],
      reason: 'live_key_required',
    });
  }
  if (operation.testOnly && !caller.testMode) {
    throw new ApiError('FORBIDDEN_SCOPE', 'This operation is only available in test mode. Send a test key.', {
      required_scopes: [],
      reason: 'test_key_required',
    });
  }
}

/**
 * For what one call needs beyond the scopes of its operation.
 * @throws ApiError 403 naming what is missing
 */
export function requireScope(scope: string, caller: Caller, moduleState: ModuleState): void {
  if (!caller.grants.allows(scope)) throw lacks([[scope]], false);
  checkModule(moduleOf(scope), caller, moduleState);
}

/** @param ways what is missing for each of the alternatives: all of one of them would do */
function lacks(ways: string[][], byRole: boolean): ApiError {
  const required = [...new Set(ways.flat())];
  const what = `${byRole ? 'role' : 'scope'}${ways.some((way) => way.length > 1) ? 's' : ''}`;
  const named = [...new Set(ways.map((way) => way.join(' and ')))].join(', or ');
  return new ApiError('FORBIDDEN_SCOPE', `This operation requires the ${what} ${named}.`, {
    required_scopes: required,
  });
}

const nameOf = {
  api_key: 'An API key',
  oauth_client: 'An OAuth token',
  session: 'A session token',
  person: 'A console session',
  gateway: 'A signature',
  system: 'An internal call',
  anonymous: '',
};

const needs = {
  session: { advice: 'Sign in, and send the session token.', reason: 'session_token_required' },
  signature: { advice: 'Sign the body in the Service-Signature header.', reason: 'signature_required' },
  apiKey: { advice: 'Send an API key.', reason: 'api_key_required' },
};

function otherCredential(operation: Operation, caller: Caller): ApiError {
  const opens = (wanted: string): boolean => operation.requirements.some(({ scheme }) => scheme === wanted);
  const { advice, reason } = needs[opens('session') ? 'session' : opens('signature') ? 'signature' : 'apiKey'];
  return new ApiError('FORBIDDEN_SCOPE', `${nameOf[caller.kind]} is not accepted for this operation. ${advice}`, {
    required_scopes: [],
    reason,
  });
}

/** A temporary password may have been read by others on its way to the person: it opens nothing. */
const passwordChangeRequired = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'Your password is temporary. Choose a new one with PATCH /v1/me/password, then repeat the call.',
    { required_scopes: [], reason: 'password_change_required' },
  );

/** The operator's key has no workspace to look at, so what opens to every key does not open to it. */
const platformKey = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'Platform keys are only accepted for signup and email checks. Send a key of a workspace.',
    {
      required_scopes: [],
      reason: 'workspace_key_required',
    },
  );

/** @throws ApiError 403 MODULE_DISABLED when the plan lacks the module or an administrator switched it off */
function checkModule(module: string, caller: Caller, moduleState: ModuleState): void {
  const state = moduleState(module, caller.modules);
  if (state === 'on') return;
  const why = state === 'not_in_plan' ? 'is not included in this plan' : 'is disabled in this workspace';
  throw new ApiError('MODULE_DISABLED', `The module ${module} ${why}.`, { module, reason: state });
}

/** Scopes may name a path parameter, as in `{object}:create`; an object that the caller cannot view does not exist for it. */
function scopeFor(scope: string, path: Record<string, string>, caller: Caller): string {
  if (!scope.startsWith('{')) return scope;
  const end = scope.indexOf('}');
  const name = path[scope.slice(1, end)] ?? '';
  if (!isObjectName(name) || !caller.grants.allows(`${name}:view`)) throw notFound();
  return name + scope.slice(end + 1);
}
