// The result of charging API calls to the monthly quota of a company.

export interface ChargedCalls {
  /** How many of the calls that wait were charged; the others are beyond the limit. */
  charged: number;
  /** How many more were charged for a lease of calls to come. */
  ahead: number;
  /** null: unlimited. */
  limit: number | null;
  monthStart: Date;
  monthEnd: Date;
  /** True while other processes hold leases of this month that are not used up. */
  heldByOthers: boolean;
}
