// Pages of the Stripe simulation: a form with a card number.
import type { Books, Session } from './books.ts';

export interface Page {
  status: number;
  html: string;
  /** The redirect target. */
  to?: string | null;
}

const form = '<form method="post"><input name="card_number"><button name="action" value="pay">Pay</button></form>';

/** @returns undefined if the path is no page */
export function pages(
  books: Books,
  base: string,
  method: string,
  path: string,
  sent: URLSearchParams,
): Page | undefined {
  const [, kind, id = ''] = /^\/(pay|portal)\/(\w+)$/.exec(path) ?? [];
  const number = sent.get('card_number') ?? '';
  if (kind === 'pay') {
    const session = books.sessions.get(id);
    if (session?.status !== 'open') return { status: 404, html: '<h1>Not open</h1>' };
    return method === 'POST' ? pay(books, session, number) : { status: 200, html: form };
  }
  if (kind === 'portal') {
    const customer = books.portals.get(id);
    if (!customer) return { status: 404, html: `<h1>Not found at ${base}</h1>` };
    if (method === 'POST') books.putOnFile(customer, number);
    return { status: 200, html: form };
  }
  return undefined;
}

function pay(books: Books, session: Session, number: string): Page {
  const method = books.newMethod(number);
  const amount = session.items.reduce((sum, { price, quantity }) => sum + (price.unit_amount ?? 0) * quantity, 0);
  if (books.decideEnding(session.customer, amount, method) !== 'paid')
    return { status: 402, html: '<p role="alert">The card was declined.</p>' };
  if (session.mode === 'subscription') books.newSubscription(session, method);
  else {
    const lines = session.items.flatMap(({ price, quantity }) =>
      books.periodLines([books.newItem(price, quantity, 0, 0)]),
    );
    const now = Math.floor(Date.now() / 1000);
    for (const line of lines) line.period = { start: now, end: now };
    const invoice = books.invoice(session.customer, null, lines, 'paid', session.details);
    const payment = invoice.payments.data[0]?.payment.payment_intent.id ?? '';
    session.payment_intent = payment;
    books.topUps.set(payment, {
      id: payment.replace('pi_', 'ch_'),
      customer: session.customer,
      amount: invoice.amount_due,
      amount_refunded: 0,
      disputed: false,
      dispute: null,
    });
  }
  session.status = 'complete';
  session.payment_status = 'paid';
  books.emit('checkout.session.completed', session);
  return { status: 303, html: '', to: session.success_url };
}
