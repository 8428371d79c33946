// What every payment provider does for us, whichever it is.
import type { BillingCycle } from './catalogue.ts';
import type { Outcome } from './changes.ts';
import type { Change, Subscription } from './subscription.ts';

/** A change that a provider is to carry out, committed before the provider is asked. */
export interface BillingOperation {
  companyId: string;
  testMode: boolean;
  /** What the provider's own idempotency keys are made of. */
  id: string;
  change: Change;
  /** As it was when the operation was made. The change is computed from it. */
  subscription: Subscription;
  /** Minor units that an open invoice asks for. */
  openMinor: number;
  askedAt: Date;
  /** The number of this try, from 1. */
  attempt: number;
}

export interface Settlement extends Outcome {
  /** False: the card was declined, and this is what becomes of the subscription. */
  isPaid: boolean;
  /** True: the subscription and its invoices were written already, as the provider's own books have them. */
  isWritten?: true;
}

/** The card was declined, and nothing was changed. */
interface Declined {
  /** Where a bank wants the person. */
  actionUrl: string | null;
}

export type OperationResult =
  | { settlement: Settlement; declined?: undefined; isOutdated?: undefined }
  | { settlement?: undefined; declined: Declined; isOutdated?: undefined }
  /** The provider's subscription has changed since the operation was made. Nothing was done: compute the change again. */
  | { settlement?: undefined; declined?: undefined; isOutdated: true };

/** A page for a person, committed before it is opened. */
export interface NewPage {
  companyId: string;
  testMode: boolean;
  /** What the provider's own idempotency keys are made of. */
  id: string;
}

/** Where a person pays. */
export interface NewCheckout extends NewPage {
  kind: 'subscribe' | 'wallet_topup';
  /** Of a subscription. */
  packageCode: string | null;
  billingCycle: BillingCycle | null;
  seats: number | null;
  /** Minor units of a top-up. */
  amountMinor: number | null;
  currency: string;
  successUrl: string | null;
  cancelUrl: string | null;
  expiresAt: Date;
}

/** Where a person changes the card on file. */
export interface NewPortal extends NewPage {
  returnUrl: string | null;
}

export interface PaymentProvider {
  /** True if the provider keeps books of its own, so that what is stored here may be behind them. */
  keepsBooks(scope: { testMode: boolean }): boolean;
  /**
   * Fetches what the provider has of a tenant, and stores it. Writes nothing while an operation is being carried out.
   * @throws ApiError 503 if the provider fails
   */
  refresh(scope: { companyId: string; testMode: boolean }): Promise<void>;
  /**
   * Has the provider asked about a checkout that somebody waits for, every few seconds at most. Returns after a moment, whether or
   * not the provider has answered: what it says is stored then.
   */
  refreshCheckout(checkout: { companyId: string; testMode: boolean; id: string }, now: Date): Promise<void>;
  /** Opens the page on which a checkout is paid. @returns its address */
  openCheckout(checkout: NewCheckout): Promise<string>;
  /** Opens the page on which the card on file is changed; it can neither cancel, pause nor switch plans. @returns its address */
  openPortal(portal: NewPortal): Promise<string>;
  /**
   * Carries an operation out. What was carried out before is looked up, and not done again: asked twice, it returns the same.
   * @throws Error if the outcome is not known; it is then asked again later
   */
  settle(operation: BillingOperation): Promise<OperationResult>;
}
