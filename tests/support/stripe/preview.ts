// Simulates the preview of the next invoice, which is not stored.
import { type Books, isAlive, Refused, required, seconds } from './books.ts';
import { type Form, readText } from './form.ts';

/** Previews the next invoice of a subscription, or of the schedule that manages it. */
export function previewInvoice(books: Books, form: Form): object {
  const scheduleId = readText(form.schedule);
  const schedule = scheduleId === '' ? undefined : required(books.schedules.get(scheduleId), scheduleId);
  const id = schedule?.subscription ?? readText(form.subscription);
  const subscription = required(books.subscriptions.get(id), id);
  if (!schedule && subscription.schedule?.status === 'active')
    throw new Refused('a schedule manages the subscription; preview the schedule');
  const [first] = subscription.items.data;
  const [begun, start] = [first?.current_period_start ?? 0, first?.current_period_end ?? 0];
  const isEnding = subscription.cancel_at_period_end || schedule?.end_behavior === 'cancel';
  if (!isAlive(subscription) || isEnding) throw new Refused('no upcoming invoices', 'invoice_upcoming_none');
  const phase = schedule?.phases.find(({ start_date }) => start_date === start);
  const items = (phase?.items ?? subscription.items.data).map(({ price, quantity }) =>
    books.newItem(price, quantity, start, start + (start - begun)),
  );
  const lines = books.periodLines(items);
  const { due, balance: _kept, ...amounts } = books.computeDue(subscription.customer, lines);
  return {
    id: `upcoming_in_${id}`,
    object: 'invoice',
    status: 'draft',
    currency: 'usd',
    created: seconds(),
    amount_due: due,
    ...amounts,
    next_payment_attempt: start + 3600,
    period_end: start,
    lines: { data: lines.slice(0, 10), has_more: lines.length > 10 },
  };
}
