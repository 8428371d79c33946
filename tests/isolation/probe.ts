// A prepared request, and variants that differ in one thing.
import { randomUUID } from 'node:crypto';
import { anyAddress, type CallOptions } from '../support/client.ts';
import type { DeclaredOperation } from '../support/document.ts';

export interface Probe {
  operation: DeclaredOperation;
  path: string;
  options: CallOptions;
  /** A repeated request, which shows the effects of changes. */
  isAgain?: true;
}

/** Returns the same request with other options. */
export function varied(probe: Probe, options: CallOptions): Probe {
  return { ...probe, options: { ...probe.options, ...fixedParts(probe.options), ...options } };
}

/** Fixes the options that the client otherwise draws for each call. */
export function fixedParts(options: CallOptions): Pick<CallOptions, 'ip' | 'idempotencyKey'> {
  return { ip: anyAddress(), ...(options.idempotencyKey ? { idempotencyKey: randomUUID() } : {}) };
}
