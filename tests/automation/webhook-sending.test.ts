// Sending webhooks under a fake clock: schedule, limits, disabling, and no lost deliveries.
import { setTimeout as sleep } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { type Claim, sweepDeliveries, takeDeliveries } from '../../db/automation/webhook-sending.ts';
import { findWebhook, hideWebhook, restartWebhook } from '../../db/automation/webhooks.ts';
import { computeSuccessRate } from '../../domain/automation/success-rates.ts';
import { computeRetriesAfterLoss } from '../../domain/automation/webhook-attempts.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { OutgoingClient } from '../../runtime/outbound/client.ts';
import { newSigningKeyPair, newSigningSecret } from '../../runtime/outbound/signed-posts.ts';
import { verifyStandardWebhook, verifyWebhook } from '../../sdk/src/index.ts';
import type { Mode } from '../support/arranged-ids.ts';
import { answering, type Behaviour, type Received, Receiver } from '../support/receivers.ts';
import { database, newTenant, newUser, rowDatabase, type Tenant } from '../support/tenants.ts';
import { readDeliveries, readWebhook, SenderWorld } from '../support/webhook-senders.ts';
import { newWebhook } from '../support/webhooks.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

let world: SenderWorld;
const receivers: Receiver[] = [];

beforeAll(async () => {
  world = await SenderWorld.open();
});
afterEach(async () => {
  await world.sender.settled();
  await Promise.all(receivers.splice(0).map((each) => each.stop()));
  // Each test has its own clock and subscriptions.
  await database()`delete from webhook_subscriptions`;
  await database()`delete from webhook_deliveries`;
  world.now = new Date();
});
afterAll(() => world.close());

async function subscribed(
  mode: Mode = 'live',
  behave?: Behaviour,
  more: object = {},
): Promise<{ tenant: Tenant; receiver: Receiver; id: string; secret: string }> {
  const [tenant, receiver] = [await newTenant(), await Receiver.start(behave)];
  receivers.push(receiver);
  return { tenant, receiver, ...(await newWebhook(tenant, mode, { url: receiver.url, ...more })) };
}

const hang: Behaviour = () => undefined;

describe('a delivery', () => {
  test('sends a delivery once with its identifying headers if the receiver accepts it', async () => {
    const { tenant, receiver, id } = await subscribed();
    const [event] = await world.addEvents(tenant, 'live');
    await world.send();
    world.later(day);
    await world.send();
    const [delivery] = await readDeliveries(id);
    expect(delivery).toMatchObject({ status: 'succeeded', attempts: 1, last_response_code: 200, last_error: null });
    expect(delivery.last_response_snippet).toBe('ok');
    expect(receiver.requests).toHaveLength(1);
    const [{ headers, body } = { headers: {}, body: '' }] = receiver.requests;
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'Service-Webhooks/1.0',
      'service-event': 'record.created',
      'service-event-id': `evt_${event?.id}`,
      'service-delivery-id': delivery.id,
      'service-attempt': '1',
      'webhook-id': `evt_${event?.id}`,
    });
    expect(JSON.parse(body)).toEqual({
      id: `evt_${event?.id}`,
      event: 'record.created',
      created_at: event?.occurredAt.toISOString(),
      test_mode: false,
      actor: event?.actor,
      request_id: null,
      origin: null,
      data: event?.data,
    });
  });

  test('tries a live delivery ten times over 75.6 hours before it fails', async () => {
    const { tenant, receiver, id } = await subscribed('live', answering(500));
    await world.addEvents(tenant, 'live');
    const start = world.now.getTime();
    const times: number[] = [];
    receiver.behave = (_, response) => {
      times.push(world.now.getTime() - start);
      response.writeHead(500).end('out of order');
    };
    await world.sendUntil(new Date(start + 10 * day));
    const pauses = [5 * second, 5 * minute, 30 * minute, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hour)];
    expect(times).toHaveLength(10);
    for (const [index, pause] of pauses.entries()) {
      const waited = (times[index + 1] ?? 0) - (times[index] ?? 0);
      expect([index, Math.abs(waited / pause - 1) <= 0.1]).toEqual([index, true]);
    }
    expect(receiver.requests.map(({ headers }) => headers['service-attempt'])).toEqual(
      Array.from({ length: 10 }, (_, index) => String(index + 1)),
    );
    expect(await readDeliveries(id)).toMatchObject([
      {
        status: 'failed',
        attempts: 10,
        last_response_code: 500,
        last_error: 'http_error',
        next_attempt_at: null,
        last_response_snippet: 'out of order',
      },
    ]);
  });

  test('tries a test delivery three times', async () => {
    const { tenant, receiver, id } = await subscribed('test', answering(500));
    await world.addEvents(tenant, 'test');
    await world.sendUntil(new Date(world.now.getTime() + hour));
    expect(receiver.requests).toHaveLength(3);
    expect(await readDeliveries(id)).toMatchObject([{ status: 'failed', attempts: 3, max_attempts: 3 }]);
  });

  test('does not send events to the other mode or to another company', async () => {
    const { tenant, receiver } = await subscribed('test');
    const other = await subscribed('live');
    await world.addEvents(tenant, 'live');
    await world.send();
    expect([receiver.requests.length, other.receiver.requests.length]).toEqual([0, 0]);
  });

  test('delivers each event once to a receiver that was down for an hour', async () => {
    const { tenant, receiver, id } = await subscribed();
    await receiver.stop();
    const events = await world.addEvents(tenant, 'live', 20);
    await world.sendUntil(new Date(world.now.getTime() + hour));
    expect((await readDeliveries(id)).every(({ status }) => status === 'retrying')).toBe(true);
    expect((await readDeliveries(id)).every(({ last_error }) => last_error === 'connect')).toBe(true);
    await receiver.listen();
    await world.sendUntil(new Date(world.now.getTime() + day));
    expect(receiver.bodies.map((body) => body.id).sort()).toEqual(events.map((event) => `evt_${event.id}`).sort());
    expect((await readDeliveries(id)).every(({ status }) => status === 'succeeded')).toBe(true);
    expect(await readWebhook(id)).toMatchObject({ consecutive_failures: 0, failing_since: null });
  });

  test('honors the Retry-After of a receiver up to an hour', async () => {
    const { tenant, receiver, id } = await subscribed();
    const waited = async (status: number, retryAfter: string): Promise<number> => {
      receiver.behave = answering(status, { 'retry-after': retryAfter });
      await database()`delete from webhook_deliveries where subscription_id = ${id}`;
      world.later(second);
      await world.addEvents(tenant, 'live');
      await world.send();
      const [delivery] = await readDeliveries(id);
      return delivery.next_attempt_at.getTime() - world.now.getTime();
    };
    expect(await waited(429, '120')).toBe(120 * second);
    expect(await waited(503, '3600')).toBe(hour);
    const inTwoMinutes = new Date(Math.floor(world.now.getTime() / second) * second + 120 * second);
    expect(await waited(503, inTwoMinutes.toUTCString())).toBe(inTwoMinutes.getTime() - world.now.getTime());
    // Longer, of another status, or invalid: the usual schedule.
    for (const [status, asked] of [
      [429, '3601'],
      [500, '120'],
      [503, 'soon'],
    ] as const)
      expect(Math.abs((await waited(status, asked)) / (5 * second) - 1)).toBeLessThanOrEqual(0.1);
  });

  test('follows no redirects of a receiver', async () => {
    const target = await subscribed();
    const { tenant, id } = await subscribed('live', answering(302, { location: target.receiver.url }));
    await world.addEvents(tenant, 'live');
    await world.send();
    expect(target.receiver.requests).toEqual([]);
    expect(await readDeliveries(id)).toMatchObject([
      { status: 'retrying', last_response_code: 302, last_error: 'http_error' },
    ]);
  });

  test.each([
    ['more than it sends, and ends', '200 OK\r\nContent-Length: 1000', true],
    ['less than it sends', '200 OK\r\nContent-Length: 2', false],
  ])('judges a response by its status if the receiver announces %s', async (_, head, ends) => {
    const { tenant, receiver, id } = await subscribed();
    receiver.behave = (_request, response) => {
      response.socket?.write(`HTTP/1.1 ${head}\r\n\r\nhello`);
      if (ends) response.socket?.end();
    };
    await world.addEvents(tenant, 'live');
    await world.send();
    expect(await readDeliveries(id)).toMatchObject([{ status: 'succeeded', last_response_code: 200 }]);
  });

  test('stores only the start of a long response, without characters that the database rejects', async () => {
    const { tenant, receiver, id } = await subscribed();
    receiver.behave = (_, response) => void response.writeHead(500).end(`\0\ud800${'é'.repeat(100_000)}`);
    await world.addEvents(tenant, 'live');
    await world.send();
    const [delivery] = await readDeliveries(id);
    expect(delivery.last_response_snippet).toHaveLength(1024);
    expect(delivery.last_response_snippet).toMatch(/^.é+$/);
  });

  test('sends to no private address, even if the subscription names one', async () => {
    const { tenant, receiver, id } = await subscribed();
    const sender = world.newSender({ client: new OutgoingClient({ privateAddresses: 'in_test_mode' }) });
    await world.addEvents(tenant, 'live');
    await sender.run(world.context);
    await sender.settled();
    expect(receiver.requests).toEqual([]);
    expect(await readDeliveries(id)).toMatchObject([{ status: 'retrying', last_error: 'blocked_address' }]);
  });
});

describe('own headers', () => {
  test('sends own headers with each attempt, and a change also for deliveries that wait', async () => {
    const sealed = (headers: object): string => new Secrets(inject('secretKey')).encrypt(JSON.stringify(headers));
    const own = { header_names: ['X-Token'], sealed_headers: sealed({ 'X-Token': 'first' }) };
    const { tenant, receiver, id } = await subscribed('live', answering(500), own);
    await world.addEvents(tenant, 'live');
    await world.send();
    await database()`
      update webhook_subscriptions set sealed_headers = ${sealed({ 'X-Token': 'second' })} where id = ${id}`;
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(receiver.requests.map(({ headers }) => headers['x-token'])).toEqual(['first', 'second']);
  });

  test('stores responses of deliveries without values of own headers', async () => {
    const own = new Secrets(inject('secretKey')).encrypt(JSON.stringify({ 'X-Token': '7b1d4f' }));
    const echo: Behaviour = ({ headers }, response) => void response.writeHead(500).end(`No ${headers['x-token']}.`);
    const { tenant, id } = await subscribed('live', echo, { header_names: ['X-Token'], sealed_headers: own });
    await world.addEvents(tenant, 'live');
    await world.send();
    expect(await readDeliveries(id)).toMatchObject([{ last_response_snippet: 'No [removed].' }]);
  });
});

describe('the success rate', () => {
  const readRate = async (tenant: Tenant, id: string): Promise<number | null> => {
    const row = await findWebhook(rowDatabase(), { companyId: tenant.companyId, testMode: false }, id);
    return computeSuccessRate(row?.attemptCounts ?? [], world.now);
  };

  test('computes the share of accepted attempts of the last 24 hours, null without attempts', async () => {
    const { tenant, receiver, id } = await subscribed('live', answering(500));
    world.now = new Date(Math.ceil(world.now.getTime() / hour) * hour);
    expect(await readRate(tenant, id)).toBeNull();
    await world.addEvents(tenant, 'live', 3);
    await world.send();
    expect(await readRate(tenant, id)).toBe(0);
    receiver.behave = answering(200);
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(await readRate(tenant, id)).toBe(0.5);
    world.later(12 * hour);
    await world.addEvents(tenant, 'live', 4);
    await world.send();
    expect(await readRate(tenant, id)).toBe(0.7);
    world.now = new Date(world.now.getTime() + 12 * hour - 2 * minute);
    expect(await readRate(tenant, id)).toBe(0.7);
    world.later(2 * minute);
    expect(await readRate(tenant, id)).toBe(1);
    world.later(12 * hour);
    expect(await readRate(tenant, id)).toBeNull();
  });

  test('keeps at most 24 hours of counts, and none of the future', async () => {
    const { tenant, id } = await subscribed();
    for (let hours = 0; hours < 30; hours += 1) {
      await world.addEvents(tenant, 'live');
      await world.send();
      world.later(hour);
    }
    expect((await readWebhook(id)).attempt_counts).toHaveLength(24 * 3);
    // As after the removal of a test clock.
    world.later(-10 * day);
    await database()`update webhook_subscriptions set created_at = ${world.now} where id = ${id}`;
    await world.addEvents(tenant, 'live');
    await world.send();
    expect((await readWebhook(id)).attempt_counts).toHaveLength(3);
  });
});

describe('a response of the receiver', () => {
  test.each([
    ['410', answering(410), 'failed'],
    ['webhook-delivery: disable', answering(200, { 'webhook-delivery': 'disable' }), 'succeeded'],
  ])(
    'disables the subscription immediately on %s, and notifies administrators, subscribers and the audit log',
    async (_, behave, status) => {
      const { tenant, id, receiver } = await subscribed('live', behave);
      await newUser(tenant);
      await world.addEvents(tenant, 'live');
      await world.send();
      expect(await readDeliveries(id)).toMatchObject([{ status, attempts: 1 }]);
      expect(await readWebhook(id)).toMatchObject({ disabled_reason: 'gone' });
      const { companyId } = tenant;
      const mails = await database()`select recipient, template, data from mails where company_id = ${companyId}`;
      expect(mails).toMatchObject([
        {
          recipient: tenant.admin.email,
          template: 'webhook_disabled',
          data: { webhook_id: id, event: 'record.created' },
        },
      ]);
      expect(
        await database()`select user_id, kind, title, subject_id from notifications where company_id = ${companyId}`,
      ).toEqual([
        {
          user_id: tenant.admin.id,
          kind: 'webhook_failing',
          title: expect.stringMatching(/^The webhook endpoint at \S+ was disabled\.$/),
          subject_id: id,
        },
      ]);
      expect(await database()`select event, data from outbox_events where company_id = ${companyId}`).toMatchObject([
        { event: 'webhook.disabled', data: { webhook_id: id, reason: 'gone' } },
      ]);
      const audit = await database()`
      select action, record_id, actor_kind from audit_logs where company_id = ${companyId} and action = 'webhook.disable'`;
      expect(audit).toMatchObject([{ action: 'webhook.disable', record_id: id, actor_kind: 'system' }]);
      // From now on, events are only stored.
      await world.addEvents(tenant, 'live');
      world.later(day);
      await world.send();
      expect((await readDeliveries(id)).map((each) => each.status)).toEqual([status, 'skipped']);
      expect(receiver.requests).toHaveLength(1);
    },
  );

  test('disables a test subscription without a mail', async () => {
    const { tenant, id } = await subscribed('test', answering(410));
    await world.addEvents(tenant, 'test');
    await world.send();
    expect(await readWebhook(id)).toMatchObject({ disabled_reason: 'gone' });
    expect(await database()`select from mails where company_id = ${tenant.companyId}`).toHaveLength(0);
    expect(await database()`select from notifications where company_id = ${tenant.companyId}`).toHaveLength(0);
  });

  test('ends only this delivery on webhook-delivery: abort-message', async () => {
    const { tenant, id } = await subscribed('live', answering(500, { 'webhook-delivery': 'abort-message' }));
    await world.addEvents(tenant, 'live');
    await world.send();
    expect(await readDeliveries(id)).toMatchObject([{ status: 'cancelled', attempts: 1, next_attempt_at: null }]);
    expect(await readWebhook(id)).toMatchObject({ disabled_reason: null, consecutive_failures: 0 });
  });
});

describe('a failing receiver', () => {
  const readMails = async (tenant: Tenant): Promise<string[]> =>
    (
      await database()<{ template: string }[]>`
      select template from mails where company_id = ${tenant.companyId} order by created_at`
    ).map((mail) => mail.template);

  test('disables an endpoint after 100 consecutive failed deliveries, half a day and a last attempt, with a warning half-way', async () => {
    const { tenant, id } = await subscribed('live', answering(500));
    await world.addEvents(tenant, 'live', 50);
    await world.sendUntil(new Date(world.now.getTime() + 4 * day));
    expect(await readWebhook(id)).toMatchObject({ disabled_at: null, exhausted_deliveries: 50 });
    expect(await readMails(tenant)).toEqual(['webhook_failing']);
    // Just before five days, so that the count decides.
    await world.addEvents(tenant, 'live', 49);
    await database()`update webhook_deliveries set attempts = 9 where subscription_id = ${id} and status = 'pending'`;
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(await readWebhook(id)).toMatchObject({ disabled_at: null, exhausted_deliveries: 99, probing_since: null });
    await world.addEvents(tenant, 'live', 1);
    await database()`update webhook_deliveries set attempts = 9 where subscription_id = ${id} and status = 'pending'`;
    await world.send();
    expect(await readWebhook(id)).toMatchObject({ disabled_at: null, probing_since: expect.any(Date) });
    await world.addEvents(tenant, 'live', 1);
    await world.send();
    expect(await readWebhook(id)).toMatchObject({ disabled_reason: 'failures' });
    expect(await readMails(tenant)).toEqual(['webhook_failing', 'webhook_disabled']);
  });

  test('disables an endpoint after five days with ten failed deliveries', async () => {
    const { tenant, id } = await subscribed('live', answering(503));
    await world.addEvents(tenant, 'live', 10);
    const start = world.now.getTime();
    await world.sendUntil(new Date(start + 5 * day - hour));
    expect(await readWebhook(id)).toMatchObject({ disabled_at: null, exhausted_deliveries: 10 });
    world.now = new Date(start + 5 * day);
    await world.addEvents(tenant, 'live', 1);
    await world.send();
    expect(await readWebhook(id)).toMatchObject({ disabled_at: null, probing_since: expect.any(Date) });
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(await readWebhook(id)).toMatchObject({ disabled_reason: 'failures' });
  });

  test('resets the health of a receiver that accepts its last attempt', async () => {
    const { tenant, id, receiver } = await subscribed('live', answering(503));
    await world.addEvents(tenant, 'live', 10);
    await world.sendUntil(new Date(world.now.getTime() + 5 * day));
    await world.addEvents(tenant, 'live', 1);
    await world.send();
    expect(await readWebhook(id)).toMatchObject({ probing_since: expect.any(Date) });
    receiver.behave = answering(200);
    await world.sendUntil(new Date(world.now.getTime() + minute));
    expect(await readWebhook(id)).toMatchObject({
      disabled_at: null,
      probing_since: null,
      failing_since: null,
      exhausted_deliveries: 0,
      consecutive_failures: 0,
    });
  });

  test('sends skipped deliveries on recovery after a subscription is enabled again', async () => {
    const { tenant, id, receiver } = await subscribed('live', answering(410));
    await world.addEvents(tenant, 'live', 3);
    await world.send();
    const scope = { companyId: tenant.companyId, testMode: false };
    receiver.behave = answering(200);
    await database()`update webhook_deliveries set status = 'pending', next_attempt_at = ${world.now} where subscription_id = ${id}`;
    await database()`update webhook_subscriptions set disabled_at = null, disabled_reason = null where id = ${id}`;
    await restartWebhook(rowDatabase(), scope, id, world.now);
    const before = receiver.requests.length;
    await world.send();
    expect(receiver.requests.length - before).toBe(3);
  });
});

describe('limits of a subscription', () => {
  test('sends at most 25 requests per second to a subscription', async () => {
    const { tenant, receiver } = await subscribed();
    await world.addEvents(tenant, 'live', 60);
    await world.send();
    expect(receiver.requests).toHaveLength(25);
    world.later(999);
    await world.send();
    expect(receiver.requests).toHaveLength(25);
    world.later(1);
    await world.send();
    expect(receiver.requests).toHaveLength(50);
    world.later(second);
    await world.send();
    expect(receiver.requests).toHaveLength(60);
  });

  test.each([1, 3, 40, 100])(
    'sends at most %i requests per second from two servers if the subscription says so',
    async (most) => {
      const { tenant, receiver, id } = await subscribed('live', undefined, { max_per_second: most });
      const other = world.newSender();
      await world.addEvents(tenant, 'live', 2 * most + 1);
      for (let second = 1; second <= 3; second += 1) {
        // Until nothing more may be sent within this second.
        for (let rounds = 0; rounds < 6; rounds += 1) {
          await Promise.all([world.sender.run(world.context), other.run(world.context)]);
          await Promise.all([world.sender.settled(), other.settled()]);
        }
        expect(receiver.requests).toHaveLength(Math.min(second * most, 2 * most + 1));
        world.later(999);
        await Promise.all([world.sender.run(world.context), other.run(world.context)]);
        await Promise.all([world.sender.settled(), other.settled()]);
        expect(receiver.requests).toHaveLength(Math.min(second * most, 2 * most + 1));
        world.later(1);
      }
      expect(receiver.mostAtOnce).toBeLessThanOrEqual(Math.max(10, 0.4 * most));
      expect((await readWebhook(id)).recent_attempts.length).toBeLessThanOrEqual(most);
    },
  );

  test('delays no other receiver while one with a limit of one per second has a thousand deliveries', async () => {
    const slow = await subscribed('live', undefined, { max_per_second: 1 });
    const { tenant, receiver } = await subscribed();
    await world.addEvents(slow.tenant, 'live', 1000);
    await world.addEvents(tenant, 'live', 20);
    await world.send();
    expect([slow.receiver.requests.length, receiver.requests.length]).toEqual([1, 20]);
  });

  test('applies a lower limit to a subscription that has just sent at a higher one', async () => {
    const { tenant, receiver, id } = await subscribed();
    await world.addEvents(tenant, 'live', 30);
    await world.send();
    expect(receiver.requests).toHaveLength(25);
    await database()`update webhook_subscriptions set max_per_second = 2, due_at = ${world.now} where id = ${id}`;
    world.later(999);
    await world.send();
    expect(receiver.requests).toHaveLength(25);
    world.later(1);
    await world.send();
    expect(receiver.requests).toHaveLength(27);
  });

  test('sends at most 10 concurrent requests to a subscription from two servers, each event once', async () => {
    const { tenant, receiver } = await subscribed();
    const held: (() => void)[] = [];
    receiver.behave = (_, response) => void held.push(() => response.end());
    const events = await world.addEvents(tenant, 'live', 23);
    const other = world.newSender();
    await Promise.all([world.sender.run(world.context), other.run(world.context)]);
    await vi.waitFor(() => expect(held).toHaveLength(10));
    await Promise.all([world.sender.run(world.context), other.run(world.context)]);
    await sleep(50);
    expect(held).toHaveLength(10);
    receiver.behave = (_, response) => void response.end();
    for (const release of held) release();
    await Promise.all([world.sender.settled(), other.settled()]);
    for (let turn = 0; turn < 5; turn += 1) {
      await Promise.all([world.sender.run(world.context), other.run(world.context)]);
      await Promise.all([world.sender.settled(), other.settled()]);
    }
    expect(receiver.mostAtOnce).toBe(10);
    expect(receiver.bodies.map((body) => body.id).sort()).toEqual(events.map(({ id }) => `evt_${id}`).sort());
  });
});

describe('a receiver that does not respond', () => {
  test('delays no other receiver while one with ten thousand deliveries does not respond', async () => {
    const dead = await subscribed('live', hang);
    await world.addEvents(dead.tenant, 'live', 10_000);
    const healthy = await subscribed();
    await world.sender.run(world.context);
    await vi.waitFor(() => expect(dead.receiver.requests).toHaveLength(10));
    await world.addEvents(healthy.tenant, 'live', 5);
    await world.sender.run(world.context);
    await vi.waitFor(() => expect(healthy.receiver.requests).toHaveLength(5));
    expect(dead.receiver.requests).toHaveLength(10);
    await dead.receiver.stop();
    receivers.splice(receivers.indexOf(dead.receiver), 1);
  });

  test('leaves capacity while many receivers do not respond: they fill half, then get few attempts each', async () => {
    const [tenant, receiver] = [await newTenant(), await Receiver.start(hang)];
    for (let count = 0; count < 40; count += 1) await newWebhook(tenant, 'live', { url: receiver.url });
    await world.addEvents(tenant, 'live', 20);
    const healthy = await subscribed();
    await world.addEvents(healthy.tenant, 'live', 2);
    await world.sender.run(world.context);
    await vi.waitFor(() => expect(healthy.receiver.requests).toHaveLength(2));
    expect(receiver.requests.length).toBeLessThan(350);
    await world.addEvents(healthy.tenant, 'live', 2);
    // The sender may skip a subscription that another transaction has locked.
    await vi.waitFor(async () => {
      await world.sender.run(world.context);
      expect(healthy.receiver.requests).toHaveLength(4);
    });
    await receiver.stop();
  });
});

describe('among many receivers that do not respond', () => {
  test('finds a healthy receiver behind many longer waiting ones that do not respond', async () => {
    const receiver = await Receiver.start(hang);
    // More receivers than one run processes, each with more deliveries than its limit.
    for (let count = 0; count < 3; count += 1) {
      const tenant = await newTenant();
      for (let number = 0; number < 40; number += 1) await newWebhook(tenant, 'live', { url: receiver.url });
      await world.addEvents(tenant, 'live', 12);
    }
    await world.sender.run(world.context);
    await database()`update webhook_subscriptions set due_at = ${world.now} - interval '1 hour'`;
    const healthy = await subscribed();
    await world.addEvents(healthy.tenant, 'live', 2);
    await vi.waitFor(async () => {
      await world.sender.run(world.context);
      expect(healthy.receiver.requests).toHaveLength(2);
    });
    await receiver.stop();
  });
});

describe('a receiver at its limit', () => {
  test('does not process a subscription at its limit for new events, and sends them once an attempt has ended', async () => {
    const { tenant, receiver, id } = await subscribed('live', hang);
    await world.addEvents(tenant, 'live', 15);
    await world.sender.run(world.context);
    await vi.waitFor(() => expect(receiver.requests).toHaveLength(10));
    const { due_at: due } = await readWebhook(id);
    expect(due.getTime()).toBeGreaterThan(world.now.getTime());
    await world.addEvents(tenant, 'live', 1);
    expect((await readWebhook(id)).due_at).toEqual(due);
    receiver.behave = (_, response) => void response.end();
    receiver.drop();
    await world.sender.settled();
    world.later(minute);
    await world.send();
    const deliveries = await readDeliveries(id);
    expect(deliveries.map(({ status }) => status)).toEqual(Array(16).fill('succeeded'));
  });

  test('sends two requests per second to a receiver that rejects everything, until it accepts one', async () => {
    const { tenant, receiver, id } = await subscribed('live', answering(500));
    await database()`update webhook_subscriptions set consecutive_failures = 5, failing_since = now() where id = ${id}`;
    await world.addEvents(tenant, 'live', 40);
    await world.send();
    expect(receiver.requests).toHaveLength(2);
    world.later(second);
    await world.send();
    expect(receiver.requests).toHaveLength(4);
    receiver.behave = (_, response) => void response.end();
    world.later(second);
    await world.send();
    expect(receiver.requests.length).toBeGreaterThanOrEqual(25);
  });
});

describe('a crashed sender', () => {
  test('releases the deliveries of a crashed sender exactly when their lease expires', async () => {
    const { tenant, receiver, id } = await subscribed();
    await world.addEvents(tenant, 'live');
    const scope = { companyId: tenant.companyId, testMode: false, id };
    expect(await takeDeliveries(rowDatabase(), scope, 10, claim(), world.now, world.now)).toHaveLength(1);
    world.later(30 * second - 1);
    await world.send();
    expect(receiver.requests).toHaveLength(0);
    world.later(1);
    await world.send();
    expect(receiver.requests.map(({ headers }) => headers['service-attempt'])).toEqual(['2']);
  });

  test('processes a subscription at its limit again when the lease of a crashed sender expires', async () => {
    const { tenant, id } = await subscribed();
    await world.addEvents(tenant, 'live', 15);
    const scope = { companyId: tenant.companyId, testMode: false, id };
    const taken = claim();
    expect(await takeDeliveries(rowDatabase(), scope, 10, taken, world.now, world.now)).toHaveLength(10);
    world.later(20 * second);
    await world.send();
    expect((await readWebhook(id)).due_at).toEqual(taken.leasedUntil);
  });

  test.each([
    ['live', 10, 75.6 * hour],
    ['test', 3, 70 * second],
  ] as const)(
    'fails a delivery, in %s mode, after %i attempts on schedule if each sender crashes',
    async (mode, most, lasts) => {
      const { tenant, receiver, id } = await subscribed(mode);
      await world.addEvents(tenant, mode);
      const scope = { companyId: tenant.companyId, testMode: mode === 'test', id };
      const start = world.now.getTime();
      const began: number[] = [];
      for (;;) {
        const [next] = await readDeliveries(id);
        if (next.next_attempt_at === null) break;
        world.now = next.next_attempt_at;
        // Each attempt starts and its outcome is never recorded.
        const retryAt = computeRetriesAfterLoss(scope.testMode, world.now);
        const taken = await takeDeliveries(rowDatabase(), scope, 10, { ...claim(), retryAt }, world.now, world.now);
        if (taken.length > 0) began.push(world.now.getTime() - start);
      }
      expect(began).toHaveLength(most);
      // The lease is longer than the shortest pauses.
      expect(began.at(-1)).toBeGreaterThanOrEqual(lasts - hour / 60);
      expect(began.at(-1)).toBeLessThanOrEqual(lasts + hour);
      expect(await readDeliveries(id)).toMatchObject([{ status: 'failed', attempts: most, last_error: 'timeout' }]);
      await world.send();
      expect(receiver.requests).toEqual([]);
    },
  );

  test('makes no further attempt after a crash during the last one', async () => {
    const { tenant, receiver, id } = await subscribed();
    await world.addEvents(tenant, 'live');
    await database()`update webhook_deliveries set attempts = 10 where subscription_id = ${id}`;
    await world.send();
    expect(receiver.requests).toEqual([]);
    expect(await readDeliveries(id)).toMatchObject([{ status: 'failed', attempts: 10, next_attempt_at: null }]);
  });

  /** Returns the lease data of a sender. */
  function claim(): Claim {
    return {
      leasedUntil: new Date(world.now.getTime() + 30 * second),
      retryAt: computeRetriesAfterLoss(false, world.now),
    };
  }
});

describe('waiting deliveries', () => {
  test('cancels any number of waiting deliveries when their subscription is deleted', async () => {
    const { tenant, id, receiver } = await subscribed();
    await world.addEvents(tenant, 'live', 2500);
    await hideWebhook(rowDatabase(), { companyId: tenant.companyId, testMode: false }, id, world.now);
    await world.send();
    expect(new Set((await readDeliveries(id)).map(({ status }) => status))).toEqual(new Set(['cancelled']));
    expect(await readWebhook(id)).toBeUndefined();
    expect(receiver.requests).toEqual([]);
  });

  test('keeps sent deliveries for 30 days', async () => {
    const { tenant, id } = await subscribed();
    await world.addEvents(tenant, 'live', 2);
    const inDays = (days: number) => new Date(world.now.getTime() + days * day);
    const sweepAt = (now: Date) => world.platform.use((sql) => sweepDeliveries(sql, 1000, now));
    expect(await sweepAt(inDays(30))).toBe(0);
    expect(await sweepAt(new Date(inDays(30).getTime() + 1))).toBe(2);
    expect(await readDeliveries(id)).toEqual([]);
  });
});

describe('a signature', () => {
  const { signature } = new Stripe('sk_test_none').webhooks;
  if (!signature) throw new Error('the library has no check of signatures');

  test('signs bodies so that standard libraries and the client verify them, and detect any change', async () => {
    const { tenant, receiver, secret } = await subscribed();
    await world.addEvents(tenant, 'live', 3, { actor: { kind: 'api_key', id: 'k', name: 'ü😀' } });
    await world.send();
    expect(receiver.requests).toHaveLength(3);
    for (const { headers, body } of receiver.requests) {
      const own = String(headers['service-signature']);
      const standard = headers as Record<string, string>;
      expect(signature.verifyHeader(body, own, secret, 300)).toBe(true);
      expect(new Webhook(secret).verify(body, standard)).toEqual(JSON.parse(body));
      expect(await verifyWebhook(body, own, secret)).toEqual(JSON.parse(body));
      const altered = body.replace('leads', 'deals');
      expect(() => signature.verifyHeader(altered, own, secret, 300)).toThrow();
      expect(() => new Webhook(secret).verify(altered, standard)).toThrow();
      await expect(verifyWebhook(altered, own, secret)).rejects.toThrow();
    }
  });

  test('signs with both Ed25519 keys during a rotation, and afterwards with the new one only', async () => {
    const { tenant, receiver, id } = await subscribed();
    const [pair, old] = [newSigningKeyPair(), newSigningKeyPair()];
    const sealing = new Secrets(inject('secretKey'));
    await database()`
      update webhook_subscriptions
      set public_key = ${pair.publicKey}, sealed_signing_key = ${sealing.encrypt(pair.signingKey)},
        previous_public_key = ${old.publicKey}, sealed_previous_signing_key = ${sealing.encrypt(old.signingKey)},
        previous_secret_expires_at = ${new Date(world.now.getTime() + minute)}
      where id = ${id}`;
    await world.addEvents(tenant, 'live');
    await world.send();
    const [first] = receiver.requests as [Received];
    for (const { publicKey } of [pair, old])
      expect(await verifyStandardWebhook(first.body, first.headers, publicKey)).toEqual(JSON.parse(first.body));
    world.later(minute);
    await world.addEvents(tenant, 'live');
    await world.send();
    const { body, headers } = receiver.requests[1] as Received;
    expect(await verifyStandardWebhook(body, headers, pair.publicKey)).toEqual(JSON.parse(body));
    await expect(verifyStandardWebhook(body, headers, old.publicKey)).rejects.toThrow('fits its body');
  });

  test('signs with both secrets during a rotation, new one first, and afterwards with the new one only', async () => {
    const { tenant, receiver, id, secret: old } = await subscribed();
    const secret = newSigningSecret();
    const sealing = new Secrets(inject('secretKey'));
    await database()`
      update webhook_subscriptions
      set sealed_previous_secret = sealed_secret, sealed_secret = ${sealing.encrypt(secret)},
        previous_secret_expires_at = ${new Date(world.now.getTime() + minute)}
      where id = ${id}`;
    await world.addEvents(tenant, 'live');
    await world.send();
    const { headers, body } = receiver.requests[0] as Received;
    const own = String(headers['service-signature']);
    for (const each of [secret, old]) {
      expect(signature.verifyHeader(body, own, each, 300)).toBe(true);
      expect(new Webhook(each).verify(body, headers as Record<string, string>)).toBeDefined();
    }
    const first = own.split(',v1=').slice(0, 2).join(',v1=');
    expect(signature.verifyHeader(body, first, secret, 300)).toBe(true);
    world.later(minute);
    await world.addEvents(tenant, 'live');
    await world.send();
    expect(String(receiver.requests[1]?.headers['service-signature']).match(/v1=/g)).toHaveLength(1);
  });
});
