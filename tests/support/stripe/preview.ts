// Simulates previews of invoices, which are not stored: as they come, and after a change.
import { type Books, type Item, isAlive, type Line, Refused, required, type Subscription, seconds } from './books.ts';
import { type Form, readList, readText } from './form.ts';
import { adjust } from './terms.ts';

/** Reads the parameters of a change, as the operations that make it do. */
export interface ChangeReaders {
  changeItems(books: Books, before: readonly Item[], sent: readonly Form[], date: number): Item[];
  readPhases(books: Books, schedule: NonNullable<Subscription['schedule']>, sent: Form[string] | undefined): Phases;
}

type Phases = NonNullable<Subscription['schedule']>['phases'];

/**
 * Previews the next invoice of a subscription or of the schedule that manages it, the invoice of a
 * change, or the first invoice of a new subscription.
 */
export function previewInvoice(books: Books, form: Form, readers: ChangeReaders): object {
  if (form.schedule !== undefined && form.subscription_details !== undefined)
    throw new Refused('schedule and subscription_details exclude each other');
  const scheduleId = readText(form.schedule);
  const schedule = scheduleId === '' ? undefined : required(books.schedules.get(scheduleId), scheduleId);
  const id = schedule?.subscription ?? readText(form.subscription);
  const details = (form.subscription_details ?? {}) as Form;
  if (id === '') return previewFirst(books, form, details, readers);
  const subscription = required(books.subscriptions.get(id), id);
  if (!schedule && subscription.schedule?.status === 'active')
    throw new Refused('a schedule manages the subscription; preview the schedule');
  if (details.items !== undefined && details.proration_behavior === 'always_invoice') {
    const date = Number(details.proration_date);
    const before = subscription.items.data;
    const after = readers.changeItems(books, before, readList(details.items), date);
    const lines = books.prorationLines(before, after, date);
    return toPreview(books, subscription.customer, lines, seconds(), id);
  }
  const [first] = subscription.items.data;
  const [begun, start] = [first?.current_period_start ?? 0, first?.current_period_end ?? 0];
  const change = form.schedule_details as Form | undefined;
  const endBehavior = change ? readText(change.end_behavior) : schedule?.end_behavior;
  const endsItself = details.cancel_at_period_end === undefined && subscription.cancel_at_period_end;
  if (!isAlive(subscription) || endsItself || endBehavior === 'cancel')
    throw new Refused('no upcoming invoices', 'invoice_upcoming_none');
  const phases = change && schedule ? readers.readPhases(books, schedule, change.phases) : schedule?.phases;
  const phase = phases?.find(({ start_date }) => start_date === start);
  const own =
    details.items === undefined
      ? subscription.items.data
      : readers.changeItems(books, subscription.items.data, readList(details.items), start);
  const items = (phase?.items ?? own).map(({ price, quantity }) =>
    books.newItem(price, quantity, start, start + (start - begun)),
  );
  return toPreview(books, subscription.customer, books.periodLines(items), start, id);
}

/** Previews a subscription that does not exist yet. */
function previewFirst(books: Books, form: Form, details: Form, readers: ChangeReaders): object {
  if (details.items === undefined) throw new Refused('provide subscription, schedule or subscription_details.items');
  const items = readers.changeItems(books, [], readList(details.items), seconds());
  const isTaxed = (form.automatic_tax as Form | undefined)?.enabled === 'true';
  return toPreview(books, readText(form.customer), books.periodLines(items), seconds(), 'new', isTaxed);
}

function toPreview(
  books: Books,
  customer: string,
  lines: Line[],
  start: number,
  id: string,
  isTaxed?: boolean,
): object {
  const adjusted = adjust(lines, books.findTerms(customer, isTaxed));
  const { balance } = books.customer(customer);
  const status = isTaxed || adjusted.total_taxes.length > 0 ? 'complete' : null;
  return {
    id: `upcoming_in_${id}`,
    object: 'invoice',
    status: 'draft',
    currency: 'usd',
    created: seconds(),
    automatic_tax: { enabled: status !== null, status },
    starting_balance: balance,
    amount_due: Math.max(0, adjusted.total + balance),
    ...adjusted,
    next_payment_attempt: start + 3600,
    period_end: start,
    lines: { data: lines.slice(0, 10), has_more: lines.length > 10 },
  };
}
