// For operations that turn out to affect the whole company. Others declare x-company-reach.
import { companyReachRequired } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** @throws ApiError 403 if the credential sees only a part of the company */
export function requireCompanyReach({ caller }: Pick<Call, 'caller'>): void {
  if (caller.reach.kind !== 'company') throw companyReachRequired();
}
