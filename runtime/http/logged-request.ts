// Builds the entry of the request log from a request and its response.
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import { type LoggedError, redactText, toLoggedBody, toLoggedError } from '../../domain/access/request-redaction.ts';
import type { Trace } from '../pipeline/trace.ts';
import type { Answer } from './responses.ts';

/** Maximum characters of a stored path. */
const maxPathLength = 500;

/**
 * Returns the entry of a request. Returns undefined if its workspace is not known: for public
 * operations, pages, and credentials that do not exist.
 * @param path as sent, without the query
 */
export function toLoggedRequest(
  method: string,
  path: string,
  trace: Trace,
  status: number,
  { headers, body }: Pick<Answer, 'headers' | 'body'>,
  milliseconds: number,
): LoggedRequest | undefined {
  const caller = trace.caller ?? trace.rejectedCaller;
  if (!caller || caller.companyId === '') return undefined;
  const { companyId, testMode, actor, ip, userAgent } = caller;
  const isReplay = headers?.['idempotent-replay'] !== undefined;
  // The failure of an attempt that lost its Idempotency-Key is not the one that was sent.
  const error = status >= 400 ? ((isReplay ? undefined : trace.failure) ?? readError(body)) : undefined;
  return {
    companyId,
    testMode,
    id: trace.requestId,
    method,
    // Paths of successful requests have IDs and names only.
    path: (error ? redactText(path) : path).slice(0, maxPathLength),
    operation: trace.operation,
    status,
    errorCode: error?.code ?? null,
    durationMs: Math.round(milliseconds * 10) / 10,
    actorKind: actor.kind,
    actorId: actor.id,
    keyName: actor.kind === 'user' ? null : actor.name,
    ip,
    userAgent,
    idempotentReplay: isReplay,
    requestBody: error && trace.body ? toLoggedBody(trace.body.toString()) : null,
    error: error ? toLoggedError(error) : null,
  };
}

/** Reads the error of a stored response; undefined if it has another format. */
function readError(body: Answer['body']): LoggedError | undefined {
  if (typeof body !== 'string') return undefined;
  try {
    const { error } = JSON.parse(body) as { error?: LoggedError };
    return typeof error?.code === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}
