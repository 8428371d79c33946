// Runs operations inside this process, as over HTTP but without a socket.

import { parseGrants } from '../../domain/access/scopes.ts';
import type { Actor } from '../caller.ts';
import type { CompanyRecord } from '../credentials/credential-store.ts';
import { newRequestId } from '../http/request-ids.ts';
import { isFree } from '../http/responses.ts';
import type { Document } from '../openapi/document.ts';
import type { InternalCall, OperationRunner } from './operation-runner.ts';
import { createTrace } from './trace.ts';

/** The response as an HTTP client would read it. */
export interface Performed {
  status: number;
  body: unknown;
  /** True if a call over HTTP would not be charged. */
  free: boolean;
  /**
   * False if the caller came from the cache and the database did not confirm it. Then nothing was
   * done.
   */
  confirmed: boolean;
}

/**
 * Performs an operation with JSON input and output: validated, authorized, in one transaction with
 * its audit rows, events and stored response. Rate limits and quotas do not apply. Errors are
 * returned as responses.
 * @throws Error if the operation does not exist, or if it receives or returns a file
 */
export type Perform = (call: InternalCall & { operationId: string }) => Promise<Performed>;

/** In-process callers never disconnect. */
const lasting = { destroyed: false, once: () => undefined, off: () => undefined };

export function createPerform(document: Document, runner: OperationRunner): Perform {
  const operations = new Map(document.operations.map((operation) => [operation.id, operation]));
  return async (call) => {
    const operation = operations.get(call.operationId);
    if (!operation || (operation.upload !== undefined && !operation.takesBody))
      throw new Error(`${call.operationId} cannot be performed in-process`);
    const { caller, credential } = call.by;
    const trace = createTrace({
      requestId: caller.requestId,
      operation: operation.id,
      caller,
      testMode: caller.testMode,
      dryRun: false,
      oauth: operation.answer === 'oauth',
      invite: undefined,
      connection: lasting,
    });
    const answer = await runner.runInternal(operation, call, trace);
    const { status, body } = answer;
    if (typeof body !== 'string') throw new Error(`${operation.id} does not respond with JSON`);
    const confirmed = credential === undefined || trace.confirmed;
    return { status, body: JSON.parse(body), free: isFree(answer), confirmed };
  };
}

/**
 * Returns the caller for work that a workspace automates: in live mode, for the whole company, with
 * only the given scopes.
 */
export function buildSystemCaller(
  company: CompanyRecord,
  actor: Omit<Actor, 'kind'>,
  scopes: readonly string[],
): InternalCall['by'] {
  const { companyId, companyName, configVersion, subscription } = company;
  return {
    configVersion,
    caller: {
      kind: 'system',
      companyId,
      companyName,
      testMode: false,
      actor: { kind: 'system', ...actor },
      grants: parseGrants(scopes),
      scopes,
      reach: { kind: 'company' },
      modules: subscription.modules,
      expiresAt: null,
      userId: null,
      sessionId: null,
      mustChangePassword: false,
      limits: { perMinute: 0, perHour: 0, tenantPerMinute: 0, tenantPerDay: null },
      ip: '',
      userAgent: null,
      requestId: newRequestId(),
    },
  };
}
