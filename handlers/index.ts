// Joins the areas. An operation without a handler, or a handler without an operation, does not compile.
import type { Handlers } from '../runtime/handler.ts';
import * as document from './document.ts';
import * as health from './health.ts';
import * as onboarding from './onboarding.ts';

export const handlers = {
  ...document,
  ...health,
  ...onboarding,
} satisfies Handlers;
