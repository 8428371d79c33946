// Runs operations inside this process, as over HTTP but without a socket.

import { parseGrants } from '../../domain/access/scopes.ts';
import type { Actor } from '../caller.ts';
import type { CompanyRecord } from '../credentials/credential-store.ts';
import { FileBody } from '../files/files.ts';
import { newRequestId } from '../http/request-ids.ts';
import { discardBody, isFree } from '../http/responses.ts';
import type { Document } from '../openapi/document.ts';
import type { InternalCall, OperationRunner } from './operation-runner.ts';
import { createTrace } from './trace.ts';

/** The response as an HTTP client would read it. */
export interface Performed {
  status: number;
  /** undefined if the response is a file. */
  body: unknown;
  /** The response of an operation that returns a file, for calls that accept one. */
  file?: FileBody;
  /** True if a call over HTTP would not be charged. */
  free: boolean;
  /**
   * False if the caller came from the cache and the database did not confirm it. Then nothing was
   * done.
   */
  confirmed: boolean;
}

/**
 * Performs an operation: validated, authorized, in one transaction with
 * its audit rows, events and stored response. Rate limits and quotas do not apply. Errors are
 * returned as responses.
 * @throws Error if the operation does not exist, if it needs a file and gets none, or if it returns
 * one and the call accepts none
 */
export type Perform = (call: InternalCall & { operationId: string; acceptsFile?: boolean }) => Promise<Performed>;

/** In-process callers never disconnect. */
const lasting = { destroyed: false, once: () => undefined, off: () => undefined };

export function createPerform(document: Document, runner: OperationRunner): Perform {
  const operations = new Map(document.operations.map((operation) => [operation.id, operation]));
  return async (call) => {
    const operation = operations.get(call.operationId);
    if (!operation || (operation.upload !== undefined && !operation.takesBody && !call.upload))
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
    const confirmed = credential === undefined || trace.confirmed;
    if (body instanceof FileBody && call.acceptsFile)
      return { status, body: undefined, file: body, free: isFree(answer), confirmed };
    discardBody(answer);
    if (typeof body !== 'string') throw new Error(`${operation.id} does not respond with JSON`);
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
