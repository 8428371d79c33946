// For operations on the whole company. They need a credential with unrestricted visibility.
import { ApiError } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** @throws ApiError 403 if the credential sees only a part of the company */
export function requireCompanyReach({ caller }: Pick<Call, 'caller'>): void {
  if (caller.reach.kind === 'company') return;
  const message = 'This operation affects the whole workspace. Use a credential with the reach company.';
  throw new ApiError('FORBIDDEN_SCOPE', message, { required_scopes: [], reason: 'company_reach_required' });
}
