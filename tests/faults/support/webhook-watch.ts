// Webhook receivers of a company in a long run, and the deliveries that they must have received.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { v7 as uuidv7 } from 'uuid';
import { selectRate } from '../../../domain/automation/webhook-attempts.ts';
import { Secrets } from '../../../runtime/credentials/secrets.ts';
import { newSigningSecret } from '../../../runtime/outbound/signed-posts.ts';
import { Receiver } from '../../support/receivers.ts';
import type { StoredEvent } from './feed-readers.ts';
import { secretKey } from './settings.ts';

/** Milliseconds for the last deliveries after the last fault, besides the time for the backlog. */
const graceMs = 120_000;

/** The events of a subscription: a part of all, so that few deliveries remain at the end. */
interface Wish {
  event: string;
  object: string;
}

const wishes: readonly Wish[] = [
  { event: 'record.created', object: 'leads' },
  { event: 'record.updated', object: 'accounts' },
  { event: 'record.deleted', object: 'accounts' },
];

interface Subscription {
  id: string;
  /** undefined: all events, recorded but not sent, because the webhook is disabled. */
  wish: Wish | undefined;
}

export class WebhookWatch {
  /** Counts for the report. */
  readonly counts = { deliveries: 0, 'more than once': 0 };
  readonly #sql: Sql;
  readonly #companyId: string;
  readonly #receiver: Receiver;
  readonly #subscriptions: Subscription[] = [];

  private constructor(sql: Sql, companyId: string, receiver: Receiver) {
    this.#sql = sql;
    this.#companyId = companyId;
    this.#receiver = receiver;
  }

  /** Creates the subscriptions before the first test-mode event of the company. */
  static async start(sql: Sql, companyId: string): Promise<WebhookWatch> {
    const watch = new WebhookWatch(sql, companyId, await Receiver.start());
    for (const wish of [...wishes, undefined]) await watch.#subscribe(wish);
    return watch;
  }

  /** Inserts directly, so that the audit log only contains the writers' changes. */
  async #subscribe(wish: Wish | undefined): Promise<void> {
    const [id, now, secret] = [uuidv7(), new Date(), newSigningSecret()];
    await this.#sql`insert into webhook_subscriptions ${this.#sql({
      company_id: this.#companyId,
      test_mode: true,
      id,
      url: `${this.#receiver.url}/${id}`,
      skip_own: false,
      events: [wish?.event ?? '*'],
      filter: wish ? this.#sql.json({ field: 'object', op: 'eq', value: wish.object }) : null,
      sealed_secret: new Secrets(secretKey).encrypt(secret),
      secret_last4: secret.slice(-4),
      created_by_kind: 'api_key',
      created_by_id: 'torture',
      created_at: now,
      updated_at: now,
      ...(wish ? {} : { disabled_reason: 'manual', disabled_at: now }),
    })}`;
    this.#subscriptions.push({ id, wish });
  }

  /**
   * Compares deliveries and requests with the feed. @param stored the feed of the company
   * @returns the problems, one line each
   */
  async judge(stored: readonly StoredEvent[]): Promise<string[]> {
    await this.#settle();
    const made = await this.#sql<{ subscription: string; event: string; status: string }[]>`
      select subscription_id as subscription, event_id as event, status from webhook_deliveries where company_id = ${this.#companyId}`;
    const wrong = this.#subscriptions.flatMap((subscription) =>
      this.#judgeOne(
        subscription,
        stored,
        made.filter((delivery) => delivery.subscription === subscription.id),
      ),
    );
    await this.#receiver.stop();
    return wrong;
  }

  #judgeOne(
    { id, wish }: Subscription,
    stored: readonly StoredEvent[],
    made: readonly { event: string; status: string }[],
  ): string[] {
    const isWanted = ({ event, object }: StoredEvent): boolean =>
      wish === undefined || (event === wish.event && object === wish.object);
    const wanted = new Set(stored.filter(isWanted).map((event) => event.id));
    const matched = new Set(made.map(({ event }) => event));
    const requests = this.#receiver.requests.filter(({ path }) => path.endsWith(id));
    const arrived = requests.map(({ body }) => String(JSON.parse(body).id).replace('evt_', ''));
    const arrivedOnce = new Set(arrived);
    this.counts.deliveries += made.length;
    this.counts['more than once'] += arrived.length - arrivedOnce.size;
    const name = wish ? `${wish.event} of ${wish.object}` : 'everything';
    const status = wish ? 'succeeded' : 'skipped';
    return [
      ...[...wanted].filter((event) => !matched.has(event)).map((event) => `${name}: no delivery was made of ${event}`),
      ...[...matched].filter((event) => !wanted.has(event)).map((event) => `${name}: a delivery was made of ${event}`),
      ...(made.length === matched.size ? [] : [`${name}: ${made.length - matched.size} deliveries were made twice`]),
      ...made.filter((each) => each.status !== status).map((each) => `${name}: ${each.event} is ${each.status}`),
      ...(wish
        ? [...wanted].filter((event) => !arrivedOnce.has(event)).map((event) => `${name}: ${event} did not arrive`)
        : []),
      ...[...arrivedOnce].filter((event) => !wanted.has(event)).map((event) => `${name}: ${event} arrived`),
    ];
  }

  /** Waits until everything is sent. Ends the leases of killed senders immediately. */
  async #settle(): Promise<void> {
    const own = this.#sql`company_id = ${this.#companyId}`;
    await this.#sql`
      update webhook_deliveries set leased_until = null, next_attempt_at = now()
      where ${own} and status in ('pending', 'retrying')`;
    await this.#sql`update webhook_subscriptions set due_at = now() where ${own} and disabled_at is null`;
    const [left] = await this.#sql<{ deliveries: number }[]>`
      select count(*) as deliveries from webhook_deliveries where ${own} and status in ('pending', 'retrying')`;
    const { perSecond } = selectRate(0, 25);
    // A fast machine writes more per second than a receiver gets, so a backlog remains.
    const tooLate = performance.now() + graceMs + (Number(left?.deliveries) / perSecond) * 1000;
    const waiting = () =>
      this.#sql`select from webhook_deliveries where ${own} and status in ('pending', 'retrying') limit 1`;
    while ((await waiting()).length > 0 && performance.now() < tooLate) await sleep(100);
  }
}
