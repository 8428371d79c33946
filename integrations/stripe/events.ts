// Where Stripe tells of events: a doorbell, which says no more than whom to look at.
import type Stripe from 'stripe';
import { findCompanyOfCustomer, takeEvent } from '../../db/billing/provider-customers.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import { ApiError, providerFailed } from '../../runtime/errors.ts';
import type { Screen, ScreenRequest } from '../../runtime/http/page-routes.ts';

export interface EventParts {
  stripe: Stripe;
  /** Signs the events. */
  webhookSecret: string;
  /** Finds whose an event is. */
  platform: Pool;
  tenants: Pool;
}

/** The policy of the addresses that events come from, by its name: a busy hour of Stripe's, and no flood. */
export const eventPolicy = { 'provider-event': [{ limit: 1000, window: 60_000 }] };

/** Milliseconds after which a transaction is given up. */
const patience = 5000;
/** Seconds by which an event may be older than its arrival, or newer. */
const tolerance = 300;

/** What begins like one of these is about what is looked at. */
const kinds = [
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

export function eventDoorbell(parts: EventParts): Screen {
  return {
    name: 'provider-event',
    path: /^\/v1\/billing\/provider-events$/,
    limit: 'provider-event',
    unchecked: true,
    show: async (request) => {
      const event = readEvent(parts, request);
      const isHeard = kinds.some((kind) => event.type.startsWith(kind));
      const customer = isHeard ? (customerOf(event) ?? (await findCustomerOfCharge(parts.stripe, event))) : undefined;
      const companyId = customer && (await parts.platform.use((sql) => findCompanyOfCustomer(sql, customer)));
      if (companyId) {
        const scope = { companyId, testMode: false };
        await inTransaction(parts.tenants, scope, patience, (sql) => takeEvent(sql, companyId, event.id, request.now));
      }
      return { received: true };
    },
  };
}

/** @throws ApiError 400 for what Stripe did not sign, or not just now, and for what is no event */
function readEvent({ stripe, webhookSecret }: EventParts, { body, headers, now }: ScreenRequest): Stripe.Event {
  const signature = headers['stripe-signature'];
  if (body && typeof signature === 'string') {
    const signedAt = Number(/(?:^|,)t=(\d+)/.exec(signature)?.[1] ?? 0);
    // The package refuses what is too old, and takes what is from the future.
    const isAhead = signedAt - now.getTime() / 1000 > tolerance;
    try {
      if (!isAhead) return checkEvent(stripe.webhooks.constructEvent(body, signature, webhookSecret, tolerance));
    } catch (error) {
      if (error instanceof SyntaxError) throw notAnEvent();
      if ((error as Stripe.errors.StripeError).type !== 'StripeSignatureVerificationError') throw error;
    }
  }
  throw new ApiError('VALIDATION_ERROR', 'The Stripe-Signature header does not match the body.', {
    reason: 'invalid_signature',
  });
}

/** Refunds and disputes name a charge, and not whose it is. */
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
    // Stripe sends the event again.
    throw providerFailed();
  }
}

/** @throws ApiError 400 unless it has what is read of it, as text that the database can hold */
function checkEvent(event: Stripe.Event | null): Stripe.Event {
  const { id, type, data } = event ?? {};
  const texts: unknown[] = [id, type];
  if (event && typeof data?.object === 'object' && data.object !== null && texts.every(isText)) {
    const customer = customerOf(event);
    if (customer === undefined || isText(customer)) return event;
  }
  throw notAnEvent();
}

const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0') && value.isWellFormed();

const notAnEvent = (): ApiError => new ApiError('VALIDATION_ERROR', 'The body must be a Stripe event.');

function customerOf({ data }: Stripe.Event): string | undefined {
  const { object, id, customer } = data.object as { object?: string; id?: string; customer?: string | { id: string } };
  if (object === 'customer') return id;
  return typeof customer === 'string' ? customer : customer?.id;
}
