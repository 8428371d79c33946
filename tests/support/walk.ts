// What the walks over all operations share: operations by kind, plausible paths, failures.
import { v7 as uuidv7 } from 'uuid';
import { expect } from 'vitest';
import { plausible } from './arranged-ids.ts';
import type { Answer } from './client.ts';
import { type DeclaredOperation, operations } from './document.ts';
import { alternativesOf, fillPath, pathParameters } from './requests.ts';
import { bodySchema } from './schemas.ts';
import { database } from './tenants.ts';

/**
 * Operations that a rule of the walks leaves out, each with its reason. These lists may only shrink: an operation that
 * breaks a rule is mended, not listed.
 */
export const exempt: Record<'envelope' | 'naming', readonly string[]> = {
  /** Answer OAuth libraries, so their failures have the shape of RFC 6749. */
  envelope: ['createSession', 'endSession'],
  /** Say the same whatever is wrong, so that nobody learns who has an account. */
  naming: ['createOnboarding', 'createOnboardingAsPlatform'],
};

export const guarded = operations.filter((operation) => alternativesOf(operation).length > 0);
export const openedByKey = guarded.filter((operation) =>
  alternativesOf(operation).some(({ scheme }) => scheme === 'apiKey'),
);
export const openedByOAuth = guarded.filter((operation) =>
  alternativesOf(operation).some(({ scheme }) => scheme === 'oauth'),
);
export const openedBySession = guarded.filter((operation) =>
  alternativesOf(operation).some(({ scheme }) => scheme === 'session'),
);
export const withBody = operations.filter((operation) => bodySchema(operation) !== undefined);
export const withIds = operations.filter((operation) => pathParameters(operation.path).length > 0);
export const honouring = operations.filter((operation) => operation.declared['x-idempotency'] !== undefined);

/** A path with well-formed values that name nothing: for what is decided before anything is looked up. */
export function anyPath(operation: DeclaredOperation, values: Record<string, string> = {}): string {
  const filled = pathParameters(operation.path).map((name) => [name, plausible(operation.path)[name] ?? uuidv7()]);
  return fillPath(operation.path, { ...Object.fromEntries(filled), ...values });
}

/** Expects a failure of the catalogue; operations with failures of their own kind are held to the status and that shape. */
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

/** The first of the operations of each kind, for what the runtime does alike for all of one kind. */
export function oneOfEach(
  all: readonly DeclaredOperation[],
  kindOf: (operation: DeclaredOperation) => unknown,
): DeclaredOperation[] {
  const kinds = Map.groupBy(all, (operation) => JSON.stringify(kindOf(operation)));
  return [...kinds.values()].flatMap((operations) => operations.slice(0, 1));
}

/** How many changes the audit log has of a request; every operation that changes something writes there. */
export async function changesBy(answer: Answer): Promise<number> {
  const [row] = await database()<{ count: number }[]>`
    select count(*)::int as count from audit_logs where request_id = ${answer.headers.get('x-request-id')}`;
  return row?.count ?? -1;
}
