// Decides whether a caller may run an operation: scopes, modules, and live or test mode.

import { getScopeModule, platformScope } from '../../domain/access/scopes.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import { isObjectName } from '../../domain/objects/builtin.ts';
import type { Caller } from '../caller.ts';
import { ApiError, notFound } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';

/**
 * Returns whether a module is on for a workspace, and if not, why.
 * @param modules the modules of the workspace's plan
 */
export type ModuleState = (module: string, modules: Modules) => 'on' | 'not_in_plan' | 'disabled_by_admin';

/**
 * Internal calls are authorized by scopes, as keys are. Users in the console have all permissions
 * of their roles.
 */
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
 * Authorizes a call, and sets the caller's visibility for this operation.
 * @throws ApiError 403 with the missing scopes; 404 if the caller cannot view the object of the
 * path
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
  if (!opened) throw missingScopes(missing, alternatives[0]?.scheme === 'session');
  if (!opened.byRole) for (const scope of opened.scopes) checkModule(getScopeModule(scope), caller, moduleState);
  if (caller.reachOf) caller.reach = caller.reachOf(opened.scopes);
  if (caller.mustPropose && !isOpenToProposers(operation)) throw proposeOnly();
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
 * Checks a scope that a call needs in addition to those of its operation.
 * @throws ApiError 403 with the missing scope
 */
export function requireScope(scope: string, caller: Caller, moduleState: ModuleState): void {
  if (!caller.grants.allows(scope)) throw missingScopes([[scope]], false);
  checkModule(getScopeModule(scope), caller, moduleState);
}

/** @param ways the missing scopes of each alternative; all scopes of one alternative suffice */
function missingScopes(ways: string[][], byRole: boolean): ApiError {
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

/** Reads, proposals, and writes that become proposals. */
const isOpenToProposers = ({ reads, dryRun, proposes }: Operation): boolean =>
  reads !== undefined || dryRun || proposes;

const proposeOnly = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'This credential only proposes changes, and this operation cannot be proposed. Ask a person to do it, or use a credential with the write mode direct.',
    { required_scopes: [], reason: 'propose_only' },
  );

/** A temporary password may have been intercepted on its way, so it grants no access. */
const passwordChangeRequired = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'Your password is temporary. Choose a new one with PATCH /v1/me/password, then repeat the call.',
    { required_scopes: [], reason: 'password_change_required' },
  );

/** Platform keys have no workspace, so operations that accept every key do not accept them. */
const platformKey = () =>
  new ApiError(
    'FORBIDDEN_SCOPE',
    'Platform keys are only accepted for signup and email checks. Send a key of a workspace.',
    {
      required_scopes: [],
      reason: 'workspace_key_required',
    },
  );

/**
 * @throws ApiError 403 MODULE_DISABLED if the plan lacks the module or an administrator disabled it
 */
function checkModule(module: string, caller: Caller, moduleState: ModuleState): void {
  const state = moduleState(module, caller.modules);
  if (state === 'on') return;
  const why = state === 'not_in_plan' ? 'is not included in this plan' : 'is disabled in this workspace';
  throw new ApiError('MODULE_DISABLED', `The module ${module} ${why}.`, { module, reason: state });
}

/**
 * Resolves a scope that names a path parameter, as in `{object}:create`. Responds 404 for an object
 * that the caller cannot view.
 */
function scopeFor(scope: string, path: Record<string, string>, caller: Caller): string {
  if (!scope.startsWith('{')) return scope;
  const end = scope.indexOf('}');
  const name = path[scope.slice(1, end)] ?? '';
  if (!isObjectName(name) || !caller.grants.allows(`${name}:view`)) throw notFound();
  return name + scope.slice(end + 1);
}
