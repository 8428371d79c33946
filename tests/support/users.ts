// Users as requests make them, for tests; those arranged in the database are in tenants.ts.
import { randomUUID } from 'node:crypto';

/** An address that nobody has. */
export function newEmail(): string {
  return `${randomUUID()}@bluelake.example`;
}

/** The least body of a user, and more. */
export function person(more: object = {}): { email: string } & Record<string, unknown> {
  return { email: newEmail(), full_name: 'Omar Nasser', role: 'Sales_Rep', ...more };
}
