// Shared by the walks over all operations: operations by kind, plausible paths, failures.
import { v7 as uuidv7 } from 'uuid';
import { expect } from 'vitest';
import { plausible } from './arranged-ids.ts';
import type { Answer } from './client.ts';
import { type DeclaredOperation, operations } from './document.ts';
import { fillPath, listAlternatives, pathParameters } from './requests.ts';
import { bodySchema } from './schemas.ts';
import { database } from './tenants.ts';

/**
 * Operations that a rule of the walks leaves out, each with its reason. These lists may only
 * shrink: fix an operation that breaks a rule, and do not list it.
 */
export const exempt: Record<'envelope' | 'naming', readonly string[]> = {
  /** OAuth libraries call these, so their errors have the shape of RFC 6749. */
  envelope: ['createSession', 'endSession'],
  /** Their errors are the same for every reason, so that they do not reveal who has an account. */
  naming: ['createOnboarding', 'createOnboardingAsPlatform'],
};

export const guarded = operations.filter((operation) => listAlternatives(operation).length > 0);
export const openedByKey = guarded.filter((operation) =>
  listAlternatives(operation).some(({ scheme }) => scheme === 'apiKey'),
);
export const openedByOAuth = guarded.filter((operation) =>
  listAlternatives(operation).some(({ scheme }) => scheme === 'oauth'),
);
export const openedBySession = guarded.filter((operation) =>
  listAlternatives(operation).some(({ scheme }) => scheme === 'session'),
);
export const withBody = operations.filter((operation) => bodySchema(operation) !== undefined);
export const withIds = operations.filter((operation) => pathParameters(operation.path).length > 0);
export const honouring = operations.filter((operation) => operation.declared['x-idempotency'] !== undefined);

/** Returns a path with well-formed values that name nothing, for checks that precede any lookup. */
export function anyPath(operation: DeclaredOperation, values: Record<string, string> = {}): string {
  const filled = pathParameters(operation.path).map((name) => [name, plausible(operation.path)[name] ?? uuidv7()]);
  return fillPath(operation.path, { ...Object.fromEntries(filled), ...values });
}

/**
 * Expects an error of the catalog. Operations with their own error format must have the status and
 * that shape.
 */
export function expectFailure(
  operation: DeclaredOperation,
  answer: Answer,
  status: number,
  code: string,
  details?: Record<string, unknown>,
): void {
  expect({ status: answer.status, answer: answer.text }).toMatchObject({ status });
  if (exempt.envelope.includes(operation.id)) {
    expect(answer.body).toEqual({ error: expect.any(String), error_description: expect.any(String) });
  } else expect(answer.body.error).toMatchObject({ code, ...(details ? { details } : {}) });
}

/**
 * Returns the first operation of each kind, for rules that the runtime applies equally to a kind.
 */
export function oneOfEach(
  all: readonly DeclaredOperation[],
  getKind: (operation: DeclaredOperation) => unknown,
): DeclaredOperation[] {
  const kinds = Map.groupBy(all, (operation) => JSON.stringify(getKind(operation)));
  return [...kinds.values()].flatMap((operations) => operations.slice(0, 1));
}

/**
 * Returns the number of audit rows of a request. Every operation that changes something writes one.
 */
export async function changesBy(answer: Answer): Promise<number> {
  const [row] = await database()<{ count: number }[]>`
    select count(*)::int as count from audit_logs where request_id = ${answer.headers.get('x-request-id')}`;
  return row?.count ?? -1;
}
