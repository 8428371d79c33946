// A separate server and database that use the Stripe simulation.
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import type Stripe from 'stripe';
import { selectProvider } from '../../../app/payment-provider.ts';
import { Pool } from '../../../db/client/pool.ts';
import type { Subscription } from '../../../domain/billing/subscription.ts';
import { follow } from '../../../integrations/stripe/follow.ts';
import { openStripe } from '../../../integrations/stripe/open.ts';
import { createStripeProvider } from '../../../integrations/stripe/provider.ts';
import { createTestProvider } from '../../../integrations/test-mode/payments.ts';
import { runBilling } from '../../../jobs/billing/subscriptions.ts';
import { OwnServer } from '../../faults/support/own-server.ts';
import { ageBill } from '../billing.ts';
import { call, expectStatus, type Json, useServer } from '../client.ts';
import { dropDatabase, newDatabase } from '../databases.ts';
import { buildJobContext } from '../job-runs.ts';
import { signIn } from '../sign-in.ts';
import { database, type Tenant, useDatabase } from '../tenants.ts';
import { periodEnd, seconds } from './books.ts';
import { StripeStandIn } from './stand-in.ts';

export const cards = { good: '4242424242424242', declined: '4000000000000002', wantsPerson: '4000000000003220' };

export class StripeWorld {
  readonly standIn: StripeStandIn;
  readonly server: OwnServer;
  readonly #databaseUrl: string;
  readonly #stripe: Stripe;
  readonly #pools: { platform: Pool; tenants: Pool; purges: Pool };
  readonly #folder: string;
  /** Alerts by job runs of this process, not by the server. */
  readonly alerts: { kind: string; details: Record<string, unknown> }[] = [];
  readonly #alert = (kind: string, _message: string, details: Record<string, unknown>): void => {
    this.alerts.push({ kind, details });
  };

  private constructor(standIn: StripeStandIn, stripe: Stripe, server: OwnServer, databaseUrl: string, folder: string) {
    this.standIn = standIn;
    this.server = server;
    this.#stripe = stripe;
    this.#databaseUrl = databaseUrl;
    this.#folder = folder;
    const shared = { url: databaseUrl, prepare: true, spread: false, wait: 10_000, statementTimeout: 10_000, lanes: 2 };
    this.#pools = {
      platform: new Pool({ ...shared, role: 'crm_platform' }),
      tenants: new Pool({ ...shared, role: 'crm_app' }),
      purges: new Pool({ ...shared, role: 'crm_purge' }),
    };
  }

  /**
   * @param name of the folder of its files
   * @param through returns the server's address of the database
   */
  static async open(name: string, through = async (url: string) => url): Promise<StripeWorld> {
    const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `${name}-${process.pid}`);
    const [standIn, databaseUrl] = await Promise.all([StripeStandIn.start(), newDatabase()]);
    const settings = {
      DATABASE_URL: await through(databaseUrl),
      DATA_DIR: folder,
      TRUSTED_PROXIES: '127.0.0.1',
      // Tests decide when its jobs run, by catchUp().
      PAUSED_JOBS: 'billing',
      ...standIn.settings,
    };
    const server = await OwnServer.start(settings);
    standIn.eventsTo = server.url;
    await useDatabase(databaseUrl);
    useServer(server.url);
    const stripe = await openStripe(standIn.settings.STRIPE_SECRET_KEY ?? '', standIn.url);
    return new StripeWorld(standIn, stripe, server, databaseUrl, folder);
  }

  async close(): Promise<void> {
    await this.server.stop();
    await Promise.all(Object.values(this.#pools).map((pool) => pool.close(1)));
    await useDatabase(undefined);
    useServer(undefined);
    await this.standIn.close();
    await dropDatabase(this.#databaseUrl);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /**
   * Does what a server does within seconds: receives the events, and synchronizes the customers
   * that they name.
   */
  async catchUp(): Promise<void> {
    await this.standIn.eventsSent();
    await this.#runJobs();
  }

  async #runJobs(): Promise<void> {
    const { tenants } = this.#pools;
    const test = createTestProvider(tenants, () => this.server.url);
    const live = createStripeProvider({
      stripe: this.#stripe,
      tenants,
      dashboardUrl: this.server.url,
      warn: () => undefined,
      alert: this.#alert,
    });
    await runBilling(buildJobContext('billing', this.#pools), {
      ...this.#pools,
      provider: selectProvider(test, live),
      follow: async (companyId, now) => (await this.look({ companyId }, now)) !== undefined,
      removeFile: async () => undefined,
    });
  }

  /** Synchronizes the customer of a tenant if it is due. */
  look({ companyId }: Pick<Tenant, 'companyId'>, now = new Date()): Promise<Subscription | undefined> {
    const { tenants } = this.#pools;
    return follow({ tenants, stripe: this.#stripe, alert: this.#alert }, companyId, { ifDue: true }, now);
  }

  /** Moves time day by day: shifts all rows into the past, and runs what has become due. */
  async pass(days: number): Promise<void> {
    for (let passed = 0; passed < days; passed += 1) {
      this.standIn.books.age(1);
      await ageBill(1);
      this.standIn.books.passTime();
      await this.catchUp();
    }
  }

  /**
   * Ends the periods of tenants at Stripe, the last of them one second ago, without synchronizing.
   * Other subscriptions of that age enter their next period as well.
   */
  async turnPeriod(...tenants: Pick<Tenant, 'companyId'>[]): Promise<void> {
    const { books } = this.standIn;
    const customers = await Promise.all(tenants.map((tenant) => this.findCustomer(tenant)));
    const own = [...books.subscriptions.values()].filter(({ customer }) => customers.includes(customer));
    const ends = own.map(periodEnd);
    const days = (Math.max(...ends) + 1 - seconds()) / 86_400;
    books.age(days);
    await ageBill(days);
    books.passTime();
  }

  /** Runs work while every event is lost. */
  async unheard<Result>(work: () => Promise<Result> | Result): Promise<Result> {
    await this.standIn.eventsSent();
    this.standIn.eventsTo = undefined;
    try {
      return await work();
    } finally {
      this.standIn.eventsTo = this.server.url;
    }
  }

  async findCustomer({ companyId }: Pick<Tenant, 'companyId'>): Promise<string> {
    const [row] = await database()<{ id: string }[]>`
      select customer_id as id from provider_customers where company_id = ${companyId}`;
    return row?.id ?? '';
  }

  /** Fills in the form of a simulated page, as a person does. */
  async fillIn(url: string, number = cards.good): Promise<number> {
    const body = new URLSearchParams({ card_number: number, action: 'pay' });
    return (await fetch(url, { method: 'POST', redirect: 'manual', body })).status;
  }

  async startCheckout(tenant: Tenant, body: object): Promise<Json> {
    const { access_token: token } = await signIn(tenant);
    return (await expectStatus(201, 'POST', '/v1/checkout-sessions', { token, body })).body.data.checkout_session;
  }

  /**
   * Subscribes by a paid checkout.
   * @returns the checkout
   */
  async subscribe(tenant: Tenant, more: object = {}): Promise<Json> {
    const session = await this.startCheckout(tenant, { kind: 'subscribe', package_code: 'starter', ...more });
    await this.fillIn(session.url);
    await this.catchUp();
    return session;
  }

  async putOnFile(tenant: Tenant, number: string): Promise<void> {
    const { body } = await expectStatus(200, 'POST', '/v1/billing/portal-session', { key: tenant.key });
    await this.fillIn(body.data.url, number);
    await this.catchUp();
  }

  async subscription({ key }: Pick<Tenant, 'key'>): Promise<Json> {
    return (await expectStatus(200, 'GET', '/v1/subscription', { key })).body.data.subscription;
  }

  async invoices({ key }: Pick<Tenant, 'key'>): Promise<Json[]> {
    return (await expectStatus(200, 'GET', '/v1/invoices', { key })).body.data.invoices;
  }

  /** Returns the charges of a tenant's cards, in minor units. */
  async charged(tenant: Pick<Tenant, 'companyId'>): Promise<number[]> {
    const own = await this.findCustomer(tenant);
    return this.standIn.books.charges.filter(({ customer }) => customer === own).map(({ amount }) => amount);
  }
}

/** Requests a change of the subscription. */
export const change = (
  { key }: Pick<Tenant, 'key'>,
  what: string,
  body?: object,
  idempotencyKey?: string,
): ReturnType<typeof call> =>
  call(what.startsWith('modules/') ? 'DELETE' : 'POST', `/v1/subscription/${what}`, {
    key,
    ...(body ? { body } : {}),
    ...(idempotencyKey ? { idempotencyKey } : {}),
  });
