// Notifications at the console: the list, and marking them as read.
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { Visitor } from '../support/page-client.ts';
import { database, newTenant } from '../support/tenants.ts';

const home = '/console/notifications';

test('lists unread notifications as text, links to what they are about, and marks them as read', async () => {
  const { companyId, admin } = await newTenant();
  const webhook = randomUUID();
  for (const title of ['<b>Ada</b> waits.', 'The endpoint keeps failing.'])
    await database()`
      insert into notifications (company_id, id, user_id, kind, title, subject_id, created_at)
      values (${companyId}, ${randomUUID()}, ${admin.id}, 'webhook_failing', ${title}, ${webhook}, now())`;
  const visitor = new Visitor();
  await visitor.signIn(admin.email);
  const { text } = await visitor.ask(home);
  expect(text).toContain('&lt;b&gt;Ada&lt;/b&gt; waits.');
  expect(text).toContain(`href="/console/webhooks/${webhook}"`);
  const [, token = ''] = /name="token" value="([^"]+)"/.exec(text) ?? [];
  const [, id = ''] = /name="id" value="([^"]+)"/.exec(text) ?? [];
  expect((await visitor.ask(`${home}/read`, { token, id })).to).toBe(`${home}?done=read`);
  expect((await visitor.ask(home)).text.match(/name="id"/g)).toHaveLength(1);
  expect((await visitor.ask(`${home}/read`, { token })).to).toBe(`${home}?done=read`);
  expect((await visitor.ask(home)).text).toContain('No notifications.');
  expect((await visitor.ask(`${home}?show=all`)).text).toContain('The endpoint keeps failing.');
  expect((await visitor.ask(`${home}/read`, { token, id: randomUUID() })).status).toBe(404);
});
