// The interface of payment providers.
import type { BillingCycle } from './catalogue.ts';
import type { Outcome } from './changes.ts';
import type { PreviewRequest, PreviewResult } from './previews.ts';
import type { Change, Subscription } from './subscription.ts';

/** A change for a provider to carry out. It is committed before the provider is asked. */
export interface BillingOperation {
  companyId: string;
  testMode: boolean;
  /** The prefix of the provider's idempotency keys. */
  id: string;
  change: Change;
  /** The subscription when the operation was created, from which the change is computed. */
  subscription: Subscription;
  /** Minor units due on the open invoice. */
  openMinor: number;
  askedAt: Date;
  /** The number of this attempt, from 1. */
  attempt: number;
}

export interface Settlement extends Outcome {
  /** False: the card was declined, and `after` is the resulting subscription. */
  isPaid: boolean;
  /** True: the subscription and its invoices are already stored from the provider's data. */
  isWritten?: true;
}

/** The card was declined, and nothing was changed. */
interface Declined {
  /** The page on which the bank asks for the person's confirmation. */
  actionUrl: string | null;
}

export type OperationResult =
  | { settlement: Settlement; declined?: undefined; isOutdated?: undefined }
  | { settlement?: undefined; declined: Declined; isOutdated?: undefined }
  /**
   * The provider's subscription changed after the operation was created. Nothing was done: compute
   * the change again.
   */
  | { settlement?: undefined; declined?: undefined; isOutdated: true };

/** A page for a person, committed before it is opened. */
export interface NewPage {
  companyId: string;
  testMode: boolean;
  /** The prefix of the provider's idempotency keys. */
  id: string;
}

/** A page on which a person pays. */
export interface NewCheckout extends NewPage {
  kind: 'subscribe' | 'wallet_topup';
  /** For subscriptions. */
  packageCode: string | null;
  billingCycle: BillingCycle | null;
  seats: number | null;
  /** The amount of a top-up in minor units. */
  amountMinor: number | null;
  currency: string;
  successUrl: string | null;
  cancelUrl: string | null;
  expiresAt: Date;
}

/** A page on which a person changes the stored card. */
export interface NewPortal extends NewPage {
  returnUrl: string | null;
}

export interface PaymentProvider {
  /**
   * Returns true if the provider manages subscriptions itself, so that the stored state may be
   * outdated.
   */
  keepsBooks(scope: { testMode: boolean }): boolean;
  /**
   * Fetches the provider's state of a tenant and stores it. Writes nothing while an operation is
   * pending.
   * @throws ApiError 503 if the provider fails
   */
  refresh(scope: { companyId: string; testMode: boolean }): Promise<void>;
  /**
   * Refreshes a checkout that a client polls, at most every few seconds. Returns after a short
   * timeout even if the provider has not responded. Its response is stored later.
   */
  refreshCheckout(checkout: { companyId: string; testMode: boolean; id: string }, now: Date): Promise<void>;
  /** Opens a checkout page. @returns its URL */
  openCheckout(checkout: NewCheckout): Promise<string>;
  /**
   * Opens a page to change the stored card. It cannot cancel, pause or switch plans.
   * @returns its URL
   */
  openPortal(portal: NewPortal): Promise<string>;
  /**
   * Computes a change from the provider's current state. Changes and stores nothing.
   * @throws ApiError 503 if the provider fails
   */
  preview(request: PreviewRequest): Promise<PreviewResult>;
  /**
   * Carries out an operation. It is idempotent: if it was carried out before, the result is looked
   * up.
   * @throws Error if the outcome is unknown; call it again later
   */
  settle(operation: BillingOperation): Promise<OperationResult>;
}
