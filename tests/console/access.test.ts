// Access to console pages: permissions, form checks, and repeated password prompts.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { call, expectStatus } from '../support/client.ts';
import { type Furnished, furnishedTenant, listPages } from '../support/console.ts';
import { hiddenFields, Visitor } from '../support/page-client.ts';
import { newPerson } from '../support/sessions.ts';
import { adminPassword, database, newTenant } from '../support/tenants.ts';
import { person } from '../support/users.ts';

let furnished: Furnished;
let admin: Visitor;
beforeAll(async () => {
  furnished = await furnishedTenant();
  admin = new Visitor();
  await admin.signIn(furnished.tenant.admin.email);
});

const signInVisitor = async (email: string): Promise<Visitor> => {
  const visitor = new Visitor();
  await visitor.signIn(email);
  return visitor;
};

/** Returns the addresses in the menu of a page. */
const readMenu = (text: string): string[] =>
  [...(text.split('<nav')[1]?.split('</nav>')[0] ?? '').matchAll(/href="([^"]+)"/g)].map((match) => match[1] ?? '');

/** Every form action besides the pages themselves. */
const listActions = ({ apiKey, webhook, delivery, changeSet, draft }: Furnished): string[] => [
  `/console/messages/${draft}`,
  `/console/change-sets/${changeSet}`,
  `/console/api-keys/${apiKey}/rotate`,
  `/console/api-keys/${apiKey}/revoke`,
  ...['enable', 'disable', 'test', 'rotate', 'delete', 'recover', 'replay'].map(
    (action) => `/console/webhooks/${webhook}/${action}`,
  ),
  `/console/webhooks/${webhook}/deliveries/${delivery}/replay`,
  '/console/plan/checkout',
  '/console/plan/portal',
  '/console/plan/change',
];

describe('a page', () => {
  test('redirects to the sign-in page and back to the requested page', async () => {
    for (const path of Object.values(listPages(furnished))) {
      const answer = await new Visitor().ask(path);
      expect(answer.to).toBe(`/console/sign-in?${new URLSearchParams({ next: path })}`);
    }
    const next = `/console/audit-log?request_id=${furnished.run}&from=2026-11-01`;
    expect((await new Visitor().signIn(furnished.tenant.admin.email, adminPassword, { next })).to).toBe(next);
  });

  test('shows pages in the menu only with permission, and rejects others with the missing permission', async () => {
    // Names live mode, because the home page chooses a mode if none is given.
    const home = '/console?mode=live';
    const everybody = [home, '/console/notifications', '/console/sessions', '/console/password'];
    const menus = {
      Company_Admin: [
        home,
        '/console/records',
        '/console/messages',
        '/console/change-sets',
        '/console/imports',
        '/console/api-keys',
        '/console/apps',
        '/console/webhooks',
        '/console/requests',
        '/console/workspace',
        '/console/people',
        '/console/organization',
        '/console/plan',
        '/console/audit-log',
        '/console/notifications',
        '/console/sessions',
        '/console/password',
      ],
      Viewer: [
        home,
        '/console/records',
        '/console/change-sets',
        '/console/imports',
        '/console/webhooks',
        '/console/requests',
        '/console/workspace',
        '/console/people',
        '/console/organization',
        '/console/audit-log',
        '/console/notifications',
        '/console/sessions',
        '/console/password',
      ],
      nobody: everybody,
    };
    for (const [role, expected] of Object.entries(menus)) {
      const { email, id } = await newPerson(furnished.tenant, role === 'nobody' ? 'Viewer' : role);
      if (role === 'nobody') await database()`delete from user_roles where user_id = ${id}`;
      const visitor = await signInVisitor(email);
      expect(readMenu((await visitor.ask('/console')).text)).toEqual(expected);
      for (const path of menus.Company_Admin) {
        const { status, text } = await visitor.ask(path);
        expect([path, status]).toEqual([path, expected.includes(path) ? 200 : 403]);
        if (status === 403) expect(text).toMatch(/the permission (\w+:\w+|Company_Admin)/);
      }
    }
  });

  test('names the mode of a page, and links to the other mode if there is one', async () => {
    for (const path of [
      '/console/records',
      '/console/messages',
      '/console/change-sets',
      '/console/webhooks',
      '/console/plan',
      '/console/audit-log',
    ]) {
      const { status, text } = await admin.ask(`${path}?mode=test`);
      expect([path, status, text.includes('Test mode'), text.includes(`href="${path}">Switch to live mode`)]).toEqual([
        path,
        200,
        true,
        true,
      ]);
      expect((await admin.ask(path)).text).toContain(`href="${path}?mode=test">Switch to test mode`);
    }
  });

  test('shows an unknown page like any other error page', async () => {
    const { status, text } = await admin.ask('/console/nowhere');
    expect([status, readMenu(text).length]).toEqual([404, 17]);
    expect((await admin.ask(`/console/api-keys/${furnished.webhook}`)).status).toBe(404);
  });

  test('returns 404 for pages and forms of another company, and changes nothing', async () => {
    const other = await furnishedTenant();
    const { apiKey, webhook, delivery, changeSet } = other;
    const paths = [
      `/console/change-sets/${changeSet}`,
      `/console/api-keys/${apiKey}`,
      `/console/webhooks/${webhook}`,
      `/console/webhooks/${webhook}/deliveries/${delivery}`,
      listPages(other).run ?? '',
      listPages(other)['a lead'] ?? '',
      listPages(other)['a message'] ?? '',
    ];
    for (const path of paths) expect([path, (await admin.ask(path)).status]).toEqual([path, 404]);
    const form = await admin.readForm('/console', '/console/sign-out');
    const filled = {
      ...form,
      confirmed: 'yes',
      action: 'approve',
      overlap_hours: '0',
      since: '2026-01-01',
      from: '2026-01-01',
      to: '2027-01-01',
    };
    for (const action of listActions(other).filter((each) => !each.startsWith('/console/plan')))
      expect([action, (await admin.ask(action, filled)).status]).toEqual([action, 404]);
    const [row] = await database()`select revoked_at, expires_at from api_keys where id = ${apiKey}`;
    expect(row).toEqual({ revoked_at: null, expires_at: null });
    const kept = await expectStatus(200, 'GET', `/v1/webhooks/${webhook}`, { key: other.tenant.key });
    expect(kept.body.data.subscription.status).toBe('active');
  });
});

describe('a form', () => {
  test('rejects a form without a token, or with that of another session', async () => {
    const other = await signInVisitor(furnished.tenant.admin.email);
    const { token = '' } = await other.readForm('/console', '/console/sign-out');
    for (const action of [
      ...listActions(furnished),
      '/console/password',
      '/console/sessions/end-others',
      '/console/api-keys/new',
      '/console/messages',
    ])
      for (const sent of [undefined, '', 'A'.repeat(43), token]) {
        const { status, text } = await admin.ask(action, sent === undefined ? {} : { token: sent });
        expect([action, status, text.includes('This form belongs to another session')]).toEqual([action, 403, true]);
      }
  });

  test('accepts a form under a session that was renewed meanwhile, and updates the cookie', async () => {
    const visitor = await signInVisitor(furnished.tenant.admin.email);
    const form = await visitor.readForm('/console/sessions', '/console/sign-out');
    const secrets = new Secrets(inject('secretKey'));
    const kept = JSON.parse(secrets.decrypt(visitor.cookie.slice('console_session='.length)));
    const expired = { ...kept, token: 'no longer good' };
    visitor.cookie = `console_session=${secrets.encrypt(JSON.stringify(expired))}`;
    const before = visitor.cookie;
    const answer = await visitor.ask('/console/webhooks/new', { ...form, url: 'x', events: '*' });
    expect([answer.status, visitor.cookie === before]).toEqual([400, false]);
    expect((await visitor.ask('/console')).status).toBe(200);
  });
});

describe('the password', () => {
  test('asks for the password again before API keys and secrets, and returns to the page', async () => {
    const { apiKey, webhook } = furnished;
    const visitor = await signInVisitor(furnished.tenant.admin.email);
    const form = await visitor.readForm('/console', '/console/sign-out');
    visitor.growStale();
    const again = (next: string): string => `/console/sign-in?${new URLSearchParams({ next, again: 'yes' })}`;
    expect((await visitor.ask('/console/api-keys/new?mode=test')).to).toBe(again('/console/api-keys/new?mode=test'));
    expect((await visitor.ask('/console/api-keys/new', form)).to).toBe(again('/console/api-keys/new'));
    for (const action of ['rotate', 'revoke'])
      expect((await visitor.ask(`/console/api-keys/${apiKey}/${action}`, form)).to).toBe(
        again(`/console/api-keys/${apiKey}`),
      );
    expect((await visitor.ask(`/console/webhooks/${webhook}/rotate`, { ...form, mode: 'test' })).to).toBe(
      again(`/console/webhooks/${webhook}?mode=test`),
    );
    expect((await visitor.ask('/console/api-keys')).status).toBe(200);
    expect((await visitor.ask(again('/console/api-keys'))).text).toContain('Enter your password again');
  });

  test('requires a new password first if the password was generated', async () => {
    const tenant = await newTenant();
    const body = person({ role: 'Company_Admin' });
    const { temp_password: password } = (await expectStatus(201, 'POST', '/v1/users', { key: tenant.key, body })).body
      .data;
    const visitor = new Visitor();
    await visitor.signIn(body.email, password);
    expect((await visitor.ask('/console')).to).toBe('/console/password');
    for (const path of ['/console/api-keys', '/console/sessions?mode=test'])
      expect((await visitor.ask(path)).to).toBe(`/console/password?${new URLSearchParams({ next: path })}`);
    const shown = await visitor.ask('/console/password');
    expect([shown.status, readMenu(shown.text), shown.text.includes('Your password is temporary')]).toEqual([
      200,
      [],
      true,
    ]);
    const form = hiddenFields(shown.text, '/console/password');
    expect((await visitor.ask('/console/sessions/end-others', form)).to).toBe('/console/password');
    const chosen = { current_password: password, password: 'a phrase of mine', repeated: 'a phrase of mine' };
    expect((await visitor.ask('/console/password', { ...form, ...chosen })).to).toBe('/console/password?done=changed');
    expect((await visitor.ask('/console')).status).toBe(200);
  });

  test('changes a password with the current one and a repeated new one, and ends all other sessions', async () => {
    const { email } = await newPerson(furnished.tenant);
    const [visitor, elsewhere] = [await signInVisitor(email), await signInVisitor(email)];
    const wrong = [
      [
        { current_password: 'wrong', password: 'another phrase', repeated: 'another phrase' },
        'Current password is wrong',
      ],
      [{ current_password: adminPassword, password: 'short', repeated: 'short' }, 'at least 8 characters'],
      [
        { current_password: adminPassword, password: 'another phrase', repeated: 'another phase' },
        'The two passwords do not match.',
      ],
    ] as const;
    for (const [fields, why] of wrong) {
      const { status, text } = await visitor.send('/console/password', fields);
      expect([status, text.includes(why), text.includes(fields.password)]).toEqual([400, true, false]);
    }
    const fields = { current_password: adminPassword, password: 'another phrase', repeated: 'another phrase' };
    expect((await visitor.send('/console/password', fields)).status).toBe(303);
    expect((await visitor.ask('/console')).status).toBe(200);
    expect((await elsewhere.ask('/console')).to).toContain('/console/sign-in');
  });
});

describe('a form of another site', () => {
  test.each([
    ['/console/sign-in', {}],
    ['/console/forgotten-password', { email: 'nobody@x.example' }],
    ['/console/new-password', { link: 'x' }],
    ['/console/sign-out', {}],
    ['/console/sessions/end-others', {}],
    ['/console/api-keys/new', { name: 'Foreign', scopes: '*' }],
    ['/console/consent/0123456789', { action: 'allow', group: 'admin' }],
  ])(
    'rejects a form to %s from another origin, from an opaque one, and on behalf of another site',
    async (path, fields) => {
      const visitor = await signInVisitor((await newPerson(furnished.tenant)).email);
      const own = new URL(inject('baseUrl')).origin;
      const form = { ...(await visitor.readForm('/console', '/console/sign-out')), ...fields };
      const foreign: Record<string, string>[] = [
        { origin: 'null' },
        { origin: 'https://evil.example' },
        { origin: `${own}.evil.example` },
        { origin: own.replace('http:', 'https:').replace(/:\d+$/, '') },
        { origin: own, 'sec-fetch-site': 'cross-site' },
        { origin: own, 'sec-fetch-site': 'same-site' },
        { 'sec-fetch-site': 'cross-site' },
      ];
      for (const headers of foreign) {
        const { status, text } = await visitor.ask(path, form, headers);
        expect([headers, status, text.includes('This form was sent from another site')]).toEqual([headers, 403, true]);
      }
      const { text } = await visitor.ask(path, form, { origin: own, 'sec-fetch-site': 'same-origin' });
      expect(text).not.toContain('This form was sent from another site');
    },
  );
});

describe('the sign-in', () => {
  test('rejects a sign-in form from a page of another site', async () => {
    const { email } = furnished.tenant.admin;
    const foreign = { 'sec-fetch-site': 'cross-site' };
    const refused = await new Visitor().ask('/console/sign-in', { email, password: adminPassword }, foreign);
    expect([refused.status, refused.headers.get('set-cookie')]).toEqual([403, null]);
    expect((await new Visitor().ask('/console/sign-in', undefined, foreign)).status).toBe(200);
  });

  test('rejects sign-ins from an address after ten attempts in a minute, for any account', async () => {
    const visitor = new Visitor();
    for (let tried = 0; tried < 10; tried += 1)
      expect((await visitor.signIn(`nobody-${tried}@x.example`, 'wrong')).status).toBe(401);
    expect((await visitor.signIn(furnished.tenant.admin.email)).status).toBe(429);
  });

  test('ends the session of a deactivated person at the next page', async () => {
    const user = await newPerson(furnished.tenant);
    const visitor = await signInVisitor(user.email);
    expect((await visitor.ask('/console')).status).toBe(200);
    await call('PATCH', `/v1/users/${user.id}`, { key: furnished.tenant.key, body: { status: 'inactive' } });
    expect((await visitor.ask('/console')).to).toContain('/console/sign-in');
  });
});
