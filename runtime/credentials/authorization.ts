// Decides whether a caller may run an operation: scopes, modules, and live or test mode.

import { getScopeModule, platformScope } from '../../domain/access/scopes.ts';
import type { Modules } from '../../domain/billing/plans.ts';
import { isObjectName } from '../../domain/objects/builtin.ts';
import type { Caller } from '../caller.ts';
import { ApiError, companyReachRequired, notFound } from '../errors.ts';
import type { Operation } from '../openapi/document.ts';
import type { AccessTrace } from './access-checks.ts';

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
 * @param trace follows the checks, for explanations of access
 * @throws ApiError 403 with the missing scopes; 404 if the caller cannot view the object of the
 * path
 */
export function authorize(
  operation: Operation,
  caller: Caller,
  path: Record<string, string>,
  getModuleState: ModuleState,
  trace?: AccessTrace,
): void {
  trace?.begin('credential');
  if (caller.mustChangePassword && !operation.beforePasswordChange) throw passwordChangeRequired();
  const alternatives = operation.requirements.filter(({ scheme }) => schemesOf[caller.kind].includes(scheme));
  if (alternatives.length === 0) throw otherCredential(operation, caller);
  if (caller.grants.allows(platformScope) && !alternatives.some(({ scopes }) => scopes.includes(platformScope)))
    throw platformKey();
  trace?.pass(`${nameOf[caller.kind]} is accepted for this operation.`);

  const isPerson = caller.kind === 'session' || caller.kind === 'person';
  trace?.begin(isPerson ? 'role' : 'scope');
  const opened = findOpened(alternatives, caller, path);
  trace?.pass(describeOpened(opened, isPerson));
  if (!opened.byRole)
    for (const scope of opened.scopes) checkModule(getScopeModule(scope), caller, getModuleState, trace);
  if (caller.computeReach) caller.reach = caller.computeReach(opened.scopes);

  trace?.begin('mode');
  checkMode(operation, caller);
  trace?.pass(`The operation is available in ${caller.testMode ? 'test' : 'live'} mode.`);
  trace?.begin('write_mode');
  if (caller.mustPropose && !isOpenToProposers(operation)) throw proposeOnly();
  trace?.pass(describeWriteMode(operation, caller));
  trace?.begin('reach');
  if (operation.companyReach && caller.reach.kind !== 'company') throw companyReachRequired();
  trace?.pass(
    caller.reach.kind === 'company'
      ? 'The credential sees the whole workspace.'
      : `The credential sees the records of its ${caller.reach.kind === 'own' ? 'user' : caller.reach.kind}.`,
  );
}

interface Opened {
  byRole: boolean;
  scopes: string[];
}

/**
 * Returns the first alternative that the caller's scopes or roles satisfy.
 * @throws ApiError 403 with the missing scopes
 */
function findOpened(alternatives: Operation['requirements'], caller: Caller, path: Record<string, string>): Opened {
  const missing: string[][] = [];
  for (const alternative of alternatives) {
    const byRole = alternative.scheme === 'session';
    const scopes = alternative.scopes.map((scope) => scopeFor(scope, path, caller));
    const lacking = scopes.filter((scope) => (byRole ? !caller.scopes.includes(scope) : !caller.grants.allows(scope)));
    if (lacking.length === 0) return { byRole, scopes };
    missing.push(lacking);
  }
  throw missingScopes(missing, alternatives[0]?.scheme === 'session');
}

function describeOpened({ byRole, scopes }: Opened, isPerson: boolean): string {
  if (scopes.length === 0) return 'The operation requires none.';
  const named = scopes.join(' and ');
  if (byRole) return `The user has the role ${named}.`;
  return isPerson ? `The roles of the user permit ${named}.` : `The credential has ${named}.`;
}

/** Returns what happens to a write. */
function describeWriteMode({ reads, proposes }: Operation, { mustPropose }: Caller): string {
  if (reads) return 'The operation changes nothing.';
  if (proposes) return 'The operation takes effect immediately, because it only proposes.';
  return mustPropose
    ? 'Changes become a change set, which takes effect after a person has approved it (propose).'
    : 'Changes take effect immediately (direct).';
}

/** @throws ApiError 403 if the operation is for live or test mode only, and the caller has the other */
function checkMode(operation: Operation, caller: Caller): void {
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
export function requireScope(scope: string, caller: Caller, getModuleState: ModuleState): void {
  if (!caller.grants.allows(scope)) throw missingScopes([[scope]], false);
  checkModule(getScopeModule(scope), caller, getModuleState);
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
function checkModule(module: string, caller: Caller, getModuleState: ModuleState, trace?: AccessTrace): void {
  const state = getModuleState(module, caller.modules);
  trace?.begin('plan');
  if (state === 'not_in_plan') throw moduleDisabled(module, 'is not included in this plan', state);
  trace?.pass(`The plan includes the module ${module}.`);
  trace?.begin('module');
  if (state === 'disabled_by_admin') throw moduleDisabled(module, 'is disabled in this workspace', state);
  trace?.pass(`The module ${module} is enabled.`);
}

const moduleDisabled = (module: string, why: string, reason: string) =>
  new ApiError('MODULE_DISABLED', `The module ${module} ${why}.`, { module, reason });

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
