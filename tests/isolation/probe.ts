// One prepared request, and others made from it that differ in one thing.
import { randomUUID } from 'node:crypto';
import { anyAddress, type CallOptions } from '../support/client.ts';
import type { DeclaredOperation } from '../support/document.ts';

export interface Probe {
  operation: DeclaredOperation;
  path: string;
  options: CallOptions;
  /** Asked a second time, to see what the changes did. */
  isAgain?: true;
}

/** The same request with something else in it. */
export function varied(probe: Probe, options: CallOptions): Probe {
  return { ...probe, options: { ...probe.options, ...fixedParts(probe.options), ...options } };
}

/** What the client would else choose anew on each call. */
export function fixedParts(options: CallOptions): Pick<CallOptions, 'ip' | 'idempotencyKey'> {
  return { ip: anyAddress(), ...(options.idempotencyKey ? { idempotencyKey: randomUUID() } : {}) };
}
