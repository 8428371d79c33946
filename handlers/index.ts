// Joins the areas. An operation without a handler, or a handler without an operation, does not compile.
import type { Handlers } from '../runtime/handler.ts';
import * as availability from './availability.ts';
import * as health from './health.ts';
import * as objectFields from './object-fields.ts';
import * as objects from './objects.ts';
import * as onboarding from './onboarding.ts';

export const handlers = {
  ...availability,
  ...health,
  ...objectFields,
  ...objects,
  ...onboarding,
} satisfies Handlers;
