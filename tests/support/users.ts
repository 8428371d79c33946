// Users created by requests, for tests. tenants.ts inserts users directly.
import { randomUUID } from 'node:crypto';

/** Returns an unused email. */
export function newEmail(): string {
  return `${randomUUID()}@bluelake.example`;
}

/** Returns the minimal body of a user with more fields. */
export function person(more: object = {}): { email: string } & Record<string, unknown> {
  return { email: newEmail(), full_name: 'Omar Nasser', role: 'Sales_Rep', ...more };
}
