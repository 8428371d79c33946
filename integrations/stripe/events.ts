// Receives Stripe events. An event only names the customer whose state must be fetched again.
import type Stripe from 'stripe';
import { findCompanyOfCustomer, takeEvent } from '../../db/billing/provider-customers.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { ApiError, providerFailed } from '../../runtime/errors.ts';
import type { PageRequest, PageRoute } from '../../runtime/http/page-routes.ts';

export interface EventParts {
  stripe: Stripe;
  /** Verifies the signatures of events. */
  webhookSecret: string;
  /** Finds the tenant of an event. */
  platform: Pool;
  tenants: Pool;
}

/** The rate limit per IP address: enough for a busy hour of Stripe. */
export const eventPolicy = { 'provider-event': [{ limit: 1000, window: 60_000 }] };

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
/** Maximum seconds between the signature time of an event and its arrival, in both directions. */
const toleranceSeconds = 300;

/** Prefixes of the event types that affect the stored state. */
const handledPrefixes = [
  'checkout.session.',
  'customer.subscription.',
  'customer.updated',
  'customer.discount.',
  'customer.tax_id.',
  'subscription_schedule.',
  'invoice.',
  'invoiceitem.',
  'payment_method.',
  'charge.refunded',
  'charge.refund.',
  'charge.dispute.',
  'refund.',
];

export function createStripeWebhookHandler(parts: EventParts): PageRoute {
  return {
    name: 'provider-event',
    path: /^\/v1\/billing\/provider-events$/,
    limit: 'provider-event',
    unchecked: true,
    show: async (request) => {
      const event = readEvent(parts, request);
      const isHeard = handledPrefixes.some((kind) => event.type.startsWith(kind));
      const customer = isHeard
        ? (getCustomerId(event) ?? (await findCustomerOfCharge(parts.stripe, event)))
        : undefined;
      const companyId = customer && (await parts.platform.use((sql) => findCompanyOfCustomer(sql, customer)));
      if (companyId) {
        const scope = { companyId, testMode: false };
        await inTransaction(parts.tenants, scope, timeoutMs, (sql) => takeEvent(sql, companyId, event.id, request.now));
      }
      return { received: true };
    },
  };
}

/**
 * @throws ApiError 400 if the signature is missing, wrong or outdated, or if the body is not an
 * event
 */
function readEvent({ stripe, webhookSecret }: EventParts, { body, headers, now }: PageRequest): Stripe.Event {
  const signature = headers['stripe-signature'];
  if (body && typeof signature === 'string') {
    const signedAt = Number(/(?:^|,)t=(\d+)/.exec(signature)?.[1] ?? 0);
    // The package rejects old timestamps, but accepts future ones.
    const isAhead = signedAt - now.getTime() / 1000 > toleranceSeconds;
    try {
      if (!isAhead) return checkEvent(stripe.webhooks.constructEvent(body, signature, webhookSecret, toleranceSeconds));
    } catch (error) {
      if (error instanceof SyntaxError) throw notAnEvent();
      if ((error as Stripe.errors.StripeError).type !== 'StripeSignatureVerificationError') throw error;
    }
  }
  throw new ApiError('VALIDATION_ERROR', 'The Stripe-Signature header does not match the body.', {
    reason: 'invalid_signature',
  });
}

/** Refunds and disputes name a charge instead of a customer. */
async function findCustomerOfCharge(stripe: Stripe, { data }: Stripe.Event): Promise<string | undefined> {
  const { charge } = data.object as { charge?: string | { id: string } | null };
  const id = typeof charge === 'string' ? charge : charge?.id;
  if (!id) return undefined;
  try {
    const { customer } = await stripe.charges.retrieve(id);
    return (typeof customer === 'string' ? customer : customer?.id) ?? undefined;
  } catch (error) {
    const { type, code } = error as Stripe.errors.StripeError;
    if (typeof type !== 'string' || !type.startsWith('Stripe')) throw error;
    if (code === 'resource_missing') return undefined;
    // The error makes Stripe send the event again.
    throw providerFailed();
  }
}

/** @throws ApiError 400 unless the fields that are read exist and can be stored in the database */
function checkEvent(event: Stripe.Event | null): Stripe.Event {
  const { id, type, data } = event ?? {};
  const texts: unknown[] = [id, type];
  if (event && typeof data?.object === 'object' && data.object !== null && texts.every(isText)) {
    const customer = getCustomerId(event);
    if (customer === undefined || isText(customer)) return event;
  }
  throw notAnEvent();
}

const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0') && value.isWellFormed();

const notAnEvent = (): ApiError => new ApiError('VALIDATION_ERROR', 'The body must be a Stripe event.');

function getCustomerId({ data }: Stripe.Event): string | undefined {
  const { object, id, customer } = data.object as { object?: string; id?: string; customer?: string | { id: string } };
  if (object === 'customer') return id;
  return typeof customer === 'string' ? customer : customer?.id;
}
