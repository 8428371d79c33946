// The header Dry-Run: which requests may send it, and what a dry run reports.
import type { IncomingMessage } from 'node:http';
import { ApiError } from '../errors.ts';
import type { Change } from '../handler.ts';
import type { DryRunEffects } from '../http/envelope.ts';
import type { Operation } from '../openapi/document.ts';

export const dryRunHeader = 'dry-run';

/** Returns true if a request has the header, with any value. */
export function asksForDryRun({ headers }: IncomingMessage): boolean {
  return headers[dryRunHeader] !== undefined;
}

/** Returns the error for the header on a route that cannot run without effects. */
export function unsupportedDryRun(): ApiError {
  return new ApiError(
    'VALIDATION_ERROR',
    'Dry-Run is not supported here. Nothing was done. Send the request without the header to run it.',
    { reason: 'dry_run_unsupported' },
  );
}

/**
 * Checks the header of a request, if it has one. A value that means "no", such as `false`, is
 * rejected too: a client must not get a write from a header that it misspelled.
 * @throws ApiError 400
 */
export function checkDryRun(operation: Operation, request: IncomingMessage): void {
  if (!asksForDryRun(request)) return;
  if (!operation.dryRun) throw unsupportedDryRun();
  if (request.headers[dryRunHeader] === 'true') return;
  throw new ApiError(
    'VALIDATION_ERROR',
    'Dry-Run must be true. Nothing was done. Send the request without the header to run it.',
    { reason: 'invalid_dry_run' },
  );
}

/** Returns the names of the events and audit actions of changes, each once. */
export function listEffects(changes: readonly Change[]): DryRunEffects {
  const events = changes.flatMap(({ event, furtherEvents = [] }) => (event ? [event, ...furtherEvents] : []));
  return {
    events: [...new Set(events.map(({ name }) => name))],
    audit: [...new Set(changes.map(({ action }) => action))],
  };
}
