// The content of a slot token: the offered slot, its user and its expiry.
import type { Exposure } from './policies.ts';

/** Times are milliseconds since 1970. */
export interface SlotClaim {
  companyId: string;
  testMode: boolean;
  poolId: string;
  policyId: string;
  /** The user of an individual slot; null: any free member of the pool. */
  userId: string | null;
  exposure: Exposure;
  start: number;
  end: number;
  expiresAt: number;
  /** The zone of the searching caller. */
  timezone: string | null;
}

type Written = [
  version: 1,
  companyId: string,
  testMode: 0 | 1,
  poolId: string,
  policyId: string,
  userId: string | null,
  exposure: Exposure,
  start: number,
  end: number,
  expiresAt: number,
  timezone: string | null,
];

export function writeClaim(claim: SlotClaim): Written {
  const { companyId, testMode, poolId, policyId, userId, exposure, start, end, expiresAt, timezone } = claim;
  return [1, companyId, testMode ? 1 : 0, poolId, policyId, userId, exposure, start, end, expiresAt, timezone];
}

/** @param written a value that this server signed */
export function readClaim(written: unknown): SlotClaim {
  const [, companyId, testMode, poolId, policyId, userId, exposure, start, end, expiresAt, timezone] =
    written as Written;
  return { companyId, testMode: testMode === 1, poolId, policyId, userId, exposure, start, end, expiresAt, timezone };
}
