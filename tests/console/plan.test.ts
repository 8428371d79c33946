// The plan at the console: checkout pages of the provider, and changes charged once per form.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { charged, storedSubscription, subscribed } from '../support/billing.ts';
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

/** Returns the fields that the form of a change submits. */
const formFor = (text: string, action: string): Record<string, string> => {
  const start = text.lastIndexOf('<form', text.indexOf(`name="action" value="${action}"`));
  return hiddenFields(text.slice(start), `${home}/change`);
};

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
    const started = await admin.ask(`${home}/checkout`, { ...hiddenFields(shown.text, `${home}/checkout`), ...fields });
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

  const change = async (action: string, fields: Record<string, string> = {}): Promise<Seen> =>
    admin.ask(`${home}/change`, { ...formFor((await admin.ask(home)).text, action), ...fields });

  test('adds seats, charged once however often the form is submitted', async () => {
    const form = { ...formFor((await admin.ask(home)).text, 'seats'), seats: '5' };
    const before = await charged(tenant);
    const answers = [await admin.ask(`${home}/change`, form), await admin.ask(`${home}/change`, form)];
    expect(answers.map(({ to }) => to)).toEqual([`${home}?done=now`, `${home}?done=now`]);
    expect((await charged(tenant)).length).toBe(before.length + 1);
    expect((await admin.ask(home)).text).toContain('1 of 5 in use');
    const wrong = await change('seats', { seats: '0' });
    expect([wrong.status, wrong.text.includes('href="#seats"')]).toEqual([400, true]);
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
    expect((await change('plan', { package_code: 'scale', direction: 'upgrade' })).to).toBe(`${home}?done=now`);
    expect((await change('plan', { package_code: 'growth', direction: 'downgrade' })).to).toBe(`${home}?done=later`);
    const wrong = await change('plan', { package_code: 'growth', direction: 'upgrade' });
    expect([wrong.status, wrong.text.includes('role="alert"')]).toEqual([409, true]);
  });

  test('warns if a downgrade raises the bill', async () => {
    await subscribed(tenant, 'live', { package_code: 'scale', seats: 28 });
    const { to } = await change('plan', { package_code: 'starter', direction: 'downgrade' });
    expect(to).toBe(`${home}?done=raises`);
    const { text } = await admin.ask(to ?? '');
    expect([text.includes('raises the bill because of the seats'), text.includes('329.00 USD')]).toEqual([true, true]);
  });

  test('offers the card instead of a second plan while the subscription is paused', async () => {
    await subscribed(tenant, 'live', { status: 'paused', due_at: null });
    const { text } = await admin.ask(home);
    expect([text.includes('The subscription is paused'), text.includes('Choose a plan')]).toEqual([true, false]);
    expect(text).toContain(`${home}/portal`);
    await subscribed(tenant, 'live', { package_code: 'growth' });
  });

  test('cancels a subscription and withdraws the cancellation', async () => {
    expect((await change('cancel')).to).toBe(`${home}?done=later`);
    expect(await storedSubscription(tenant)).toMatchObject({ cancel_at_period_end: true });
    expect((await change('reactivate')).to).toBe(`${home}?done=now`);
    expect(await storedSubscription(tenant)).toMatchObject({ cancel_at_period_end: false });
  });

  test('links to the portal to change the card', async () => {
    const opened = await admin.send(home, {}, `${home}/portal`);
    expect(linkIn(opened)).toContain('/portal/live/');
    expect((await fetch(linkIn(opened))).status).toBe(200);
  });
});
