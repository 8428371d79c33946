// The plan at the console: checkout pages of the provider, and changes charged once per form.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { charged, declinedCard, storedSubscription, subscribed } from '../support/billing.ts';
import { hiddenFields, type Seen, Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/plan';

async function newAdmin(): Promise<{ tenant: Tenant; admin: Visitor }> {
  const tenant = await newTenant();
  const admin = new Visitor();
  await admin.signIn(tenant.admin.email);
  return { tenant, admin };
}

/** Returns the address of the page that confirms a change. */
const confirmation = (action: string, fields: Record<string, string> = {}): string =>
  `${home}/change?${new URLSearchParams({ action, ...fields })}`;

const pay = (url: string): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ card_number: '4242 4242 4242 4242', expiry: '12/35', code: '123', action: 'pay' }),
  });

const linkIn = ({ text }: Seen): string => new RegExp(`href="(${inject('baseUrl')}/[^"]+)"`).exec(text)?.[1] ?? '';

describe('a checkout', () => {
  test('leads to the checkout page of the provider and back to the paid plan', async () => {
    const { tenant, admin } = await newAdmin();
    const shown = await admin.ask(home);
    expect([shown.text.includes('trialing'), shown.text.includes('Choose a plan')]).toEqual([true, true]);
    const fields = { package_code: 'starter', billing_cycle: 'yearly' };
    const chosen = await admin.ask(confirmation('subscribe', fields));
    for (const part of ['Choose Starter, yearly', '290.00 USD', 'Continue to payment'])
      expect(chosen.text).toContain(part);
    const started = await admin.ask(`${home}/checkout`, hiddenFields(chosen.text, `${home}/checkout`));
    expect(linkIn(started)).toContain('/checkout/live/');
    const paid = await pay(linkIn(started));
    expect([paid.status, paid.headers.get('location')]).toEqual([303, `${inject('baseUrl')}${home}?done=paid`]);
    expect(await storedSubscription(tenant)).toMatchObject({ package_code: 'starter', billing_cycle: 'yearly' });
    const { text } = await admin.ask(home);
    for (const part of ['Starter', 'yearly', 'visa, ending in 4242', 'Upgrade</button>']) expect(text).toContain(part);
    expect(text).not.toContain('Choose a plan');
  });

  test('accepts whole amounts and cents for the wallet, and rejects small amounts', async () => {
    const { tenant, admin } = await newAdmin();
    const form = { ...(await admin.readForm(home, `${home}/checkout`)), kind: 'wallet_topup' };
    const little = await admin.ask(`${home}/checkout`, { ...form, amount: '1' });
    expect([little.status, little.text.includes('value="1"')]).toEqual([400, true]);
    const started = await admin.ask(`${home}/checkout`, { ...form, amount: '12.34' });
    await pay(linkIn(started));
    expect(await charged(tenant)).toEqual([1234]);
    expect((await admin.ask(home)).text).toContain('12.34 USD');
  });

  test('lets only administrators start a checkout, and rejects unknown changes', async () => {
    const { tenant, admin } = await newAdmin();
    const viewer = new Visitor();
    await viewer.signIn((await newPerson(tenant, 'Viewer')).email);
    const form = await viewer.readForm('/console', '/console/sign-out');
    for (const path of [`${home}/checkout`, `${home}/portal`, `${home}/change`]) {
      const wanted = { kind: 'subscribe', package_code: 'growth', billing_cycle: 'monthly', action: 'cancel' };
      expect([path, (await viewer.ask(path, { ...form, ...wanted })).status]).toEqual([path, 403]);
    }
    const own = await admin.readForm(home, `${home}/checkout`);
    expect((await admin.ask(`${home}/change`, { ...own, action: 'nonsense' })).status).toBe(404);
  });
});

describe('a subscription', () => {
  let tenant: Tenant;
  let admin: Visitor;
  beforeAll(async () => {
    ({ tenant, admin } = await newAdmin());
    await subscribed(tenant);
  });

  const readConfirmation = async (action: string, fields: Record<string, string> = {}) => {
    const page = await admin.ask(confirmation(action, fields));
    return { page, form: hiddenFields(page.text, `${home}/change`) };
  };

  /** Chooses a change and confirms it. Returns the plan page with errors if it cannot be chosen. */
  const change = async (action: string, fields: Record<string, string> = {}): Promise<Seen> => {
    const { page, form } = await readConfirmation(action, fields);
    return page.status === 200 ? admin.ask(`${home}/change`, form) : page;
  };

  test('shows what a change costs before it is confirmed, and charges exactly that', async () => {
    const before = await charged(tenant);
    const { page, form } = await readConfirmation('upgrade', { package_code: 'growth' });
    for (const part of [
      'Upgrade to Growth',
      'Due now</dt><dd>35.00 USD',
      'instead of 29.00 USD',
      'Unused time of Starter, monthly',
      'Confirm and pay 35.00 USD',
    ])
      expect(page.text).toContain(part);
    expect((await charged(tenant)).length).toBe(before.length);
    expect((await admin.ask(`${home}/change`, form)).to).toBe(`${home}?done=now`);
    expect((await charged(tenant)).slice(before.length)).toEqual([3500]);
    await subscribed(tenant);
  });

  test('shows the change again if its amounts have changed since', async () => {
    const { form } = await readConfirmation('set_seats', { seats: '5' });
    await subscribed(tenant, 'live', { credit_minor: 500 });
    const before = await charged(tenant);
    const again = await admin.ask(`${home}/change`, form);
    expect([again.status, again.text.includes('The amounts have changed since you saw them')]).toEqual([409, true]);
    expect(await charged(tenant)).toEqual(before);
    expect((await admin.ask(`${home}/change`, hiddenFields(again.text, `${home}/change`))).to).toBe(`${home}?done=now`);
    expect((await charged(tenant)).slice(before.length)).toEqual([700]);
    await subscribed(tenant);
  });

  test('shows the change again if the person waited too long', async () => {
    const { form } = await readConfirmation('set_seats', { seats: '6' });
    const late = { ...form, prorated_at: new Date(Date.now() - 16 * 60_000).toISOString() };
    const again = await admin.ask(`${home}/change`, late);
    expect([again.status, again.text.includes('Confirm and pay')]).toEqual([409, true]);
    expect(await storedSubscription(tenant)).toMatchObject({ seats: null });
  });

  test('adds seats, charged once however often the form is submitted', async () => {
    const { form } = await readConfirmation('set_seats', { seats: '5' });
    const before = await charged(tenant);
    const answers = [await admin.ask(`${home}/change`, form), await admin.ask(`${home}/change`, form)];
    expect(answers.map(({ to }) => to)).toEqual([`${home}?done=now`, `${home}?done=now`]);
    expect((await charged(tenant)).length).toBe(before.length + 1);
    expect((await admin.ask(home)).text).toContain('1 of 5 in use');
    const wrong = await change('set_seats', { seats: '0' });
    expect([wrong.status, wrong.text.includes('href="#seats"')]).toEqual([400, true]);
  });

  test('schedules a downgrade once, however often the form is submitted', async () => {
    await subscribed(tenant, 'live', { package_code: 'growth' });
    const { form } = await readConfirmation('downgrade', { package_code: 'starter' });
    const answers = [await admin.ask(`${home}/change`, form), await admin.ask(`${home}/change`, form)];
    expect(answers.map(({ to }) => to)).toEqual([`${home}?done=later`, `${home}?done=later`]);
    await subscribed(tenant);
  });

  test('adds a module and removes it with the period, and shows no button for included modules', async () => {
    expect((await change('add_module', { module_key: 'campaigns' })).to).toBe(`${home}?done=now`);
    expect((await change('remove_module', { module_key: 'campaigns' })).to).toBe(`${home}?done=later`);
    expect((await admin.ask(home)).text).toContain('remove the module campaigns');
    await subscribed(tenant, 'live', { package_code: 'growth' });
    const { text } = await admin.ask(home);
    expect([text.includes('Remove Inbox'), text.includes('Add Campaigns')]).toEqual([false, true]);
  });

  test('upgrades immediately and downgrades at the end of the period', async () => {
    expect((await change('upgrade', { package_code: 'scale' })).to).toBe(`${home}?done=now`);
    expect((await change('downgrade', { package_code: 'growth' })).to).toBe(`${home}?done=later`);
    const wrong = await change('upgrade', { package_code: 'growth' });
    expect([wrong.status, wrong.text.includes('role="alert"')]).toEqual([409, true]);
  });

  test('warns before a downgrade that raises the bill', async () => {
    await subscribed(tenant, 'live', { package_code: 'scale', seats: 28 });
    const { page, form } = await readConfirmation('downgrade', { package_code: 'starter' });
    expect(page.text).toContain('This downgrade raises the bill');
    expect(page.text).toContain('329.00 USD');
    expect((await admin.ask(`${home}/change`, form)).to).toBe(`${home}?done=later`);
  });

  test('shows a declined card on the plan, and changes nothing', async () => {
    await subscribed(tenant, 'live', { payment_method: declinedCard });
    const declined = await change('upgrade', { package_code: 'growth' });
    expect([declined.status, declined.text.includes('The card was declined')]).toEqual([402, true]);
    expect(await storedSubscription(tenant)).toMatchObject({ package_code: 'starter' });
  });

  test('offers the card instead of a second plan while the subscription is paused', async () => {
    await subscribed(tenant, 'live', { status: 'paused', due_at: null });
    const { text } = await admin.ask(home);
    expect([text.includes('The subscription is paused'), text.includes('Choose a plan')]).toEqual([true, false]);
    expect(text).toContain(`${home}/portal`);
    await subscribed(tenant, 'live', { package_code: 'growth' });
  });

  test('cancels a subscription and withdraws the cancellation', async () => {
    const { page } = await readConfirmation('cancel');
    expect(page.text).toContain('Next invoice</dt><dd>none');
    expect((await change('cancel')).to).toBe(`${home}?done=later`);
    expect(await storedSubscription(tenant)).toMatchObject({ cancel_at_period_end: true });
    expect((await change('reactivate')).to).toBe(`${home}?done=now`);
    expect(await storedSubscription(tenant)).toMatchObject({ cancel_at_period_end: false });
  });

  test('shows people who may only view the amounts no button', async () => {
    const viewer = new Visitor();
    await viewer.signIn((await newPerson(tenant, 'Viewer')).email);
    const page = await viewer.ask(confirmation('cancel'));
    expect(page.text).not.toContain('name="once"');
  });

  test('links to the portal to change the card', async () => {
    const opened = await admin.send(home, {}, `${home}/portal`);
    expect(linkIn(opened)).toContain('/portal/live/');
    expect((await fetch(linkIn(opened))).status).toBe(200);
  });
});
