// The workspace at the console: its logo, which its pages show, and which files can be one.
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { readImage } from '../../domain/access/logo-images.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import { buildUnsubscribePath } from '../../web/recipients/unsubscribe.ts';
import { expectStatus } from '../support/client.ts';
import { newDraft } from '../support/messaging.ts';
import { type Seen, Visitor } from '../support/page-client.ts';
import { adminToken, newPerson } from '../support/sessions.ts';
import { database, newTenant, type Tenant } from '../support/tenants.ts';

const home = '/console/workspace';

/** Returns the beginning of a PNG file; `text` makes each one different. */
function newPng(width: number, height: number, text = ''): Buffer {
  const size = Buffer.alloc(8);
  size.writeUInt32BE(width, 0);
  size.writeUInt32BE(height, 4);
  const head = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  return Buffer.concat([head, size, Buffer.alloc(20), Buffer.from(text)]);
}

let tenant: Tenant;
let admin: Visitor;
beforeAll(async () => {
  tenant = await newTenant();
  admin = new Visitor();
  await admin.signIn(tenant.admin.email);
});

async function upload(visitor: Visitor, file: Buffer | undefined, name = 'logo.png'): Promise<Seen> {
  const form = new FormData();
  for (const [field, value] of Object.entries(await visitor.readForm(home, home))) form.set(field, value);
  if (file) form.set('logo', new File([new Uint8Array(file)], name));
  return visitor.ask(home, form);
}

const findPath = (text: string): string => /src="(\/logos\/[0-9a-f-]{36}\/[0-9a-f]{32})"/.exec(text)?.[1] ?? '';

test('shows an uploaded logo on every page of the workspace, replaces it, and removes it', async () => {
  const draft = await newDraft(tenant.key, { channel: 'email', to: 'sara@x.example', subject: 'Offer', body: 'Hi' });
  const tokens = new SignedTokens(new Secrets(inject('secretKey')));
  const live = { companyId: tenant.companyId, testMode: false };
  const made = await expectStatus(201, 'POST', '/v1/checkout-sessions', {
    token: await adminToken(tenant),
    body: { kind: 'wallet_topup', amount_minor: 5000 },
  });
  const outside = [
    buildUnsubscribePath(tokens, live, draft.id),
    new URL(made.body.data.checkout_session.url).pathname,
    '/console/sign-in?again=yes',
  ];
  for (const path of outside) {
    const { text, headers } = await admin.ask(path);
    expect([path, text.includes('<header class="workspace"><p><bdi>Tenant</bdi></p>')]).toEqual([path, true]);
    expect(headers.get('content-security-policy')).toContain('img-src data:;');
  }

  const first = newPng(400, 100);
  expect((await upload(admin, first)).to).toBe(`${home}?done=logo`);
  const path = findPath((await admin.ask(home)).text);
  for (const each of ['/console', ...outside]) {
    const { text, headers } = await admin.ask(each);
    expect([each, text.includes(`<img class="logo" src="${path}" alt="" width="160" height="40">`)]).toEqual([
      each,
      true,
    ]);
    expect(headers.get('content-security-policy')).toContain("img-src 'self' data:;");
  }
  const image = await fetch(inject('baseUrl') + path);
  expect(Object.fromEntries(image.headers)).toMatchObject({
    'content-type': 'image/png',
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  });
  expect(Buffer.from(await image.arrayBuffer()).equals(first)).toBe(true);

  await upload(admin, newPng(30, 30, 'another'));
  const next = findPath((await admin.ask(home)).text);
  expect(next).not.toBe(path);
  const fetchStatus = async (each: string): Promise<number> => (await fetch(inject('baseUrl') + each)).status;
  expect([await fetchStatus(path), await fetchStatus(next)]).toEqual([404, 200]);

  expect((await admin.send(home, {}, `${home}/remove-logo`)).to).toBe(`${home}?done=removed`);
  expect([await fetchStatus(next), findPath((await admin.ask('/console')).text)]).toEqual([404, '']);
  const rows = await database()`
    select action, metadata from audit_logs
    where company_id = ${tenant.companyId} and object = 'companies' and action like 'company.%logo' order by occurred_at`;
  expect(rows.map(({ action }) => action)).toEqual([
    'company.update_logo',
    'company.update_logo',
    'company.delete_logo',
  ]);
  expect(rows[0]?.metadata).toMatchObject({ content_type: 'image/png', bytes: first.length });
});

describe('an upload', () => {
  test.each([
    ['no file', undefined, 'is required'],
    ['an empty file', Buffer.alloc(0), 'must not be empty'],
    [
      'a file of another type',
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
      'not a PNG, JPEG, WebP or GIF',
    ],
    ['a page with the name of an image', Buffer.from('<script>alert(1)</script>'), 'not a PNG, JPEG, WebP or GIF'],
    ['too many bytes', Buffer.concat([newPng(10, 10), Buffer.alloc(262_144)]), 'at most 256 KB'],
    ['too many pixels', newPng(10, 5000), 'at most 4096 pixels'],
    ['no pixels', newPng(0, 10), 'not a PNG, JPEG, WebP or GIF'],
  ])('is rejected with %s', async (_name, file, message) => {
    const { status, text } = await upload(admin, file);
    expect([status, text.includes(message)]).toEqual([400, true]);
    expect(text).toMatch(/<li><a href="#logo">/);
    expect(text).toMatch(/<input id="logo"[^>]*aria-invalid="true" autofocus/);
  });

  test('is rejected with more bytes than a form can have', async () => {
    expect((await upload(admin, Buffer.alloc(2_000_000))).status).toBe(400);
  });

  test('is rejected without the token of the form, and if the form cannot be read', async () => {
    const form = new FormData();
    form.set('logo', new File([new Uint8Array(newPng(10, 10))], 'logo.png'));
    expect((await admin.ask(home, form)).status).toBe(403);
    const broken = await admin.ask(home, { token: 'x' }, { 'content-type': 'multipart/form-data; boundary=x' });
    expect(broken.status).toBe(400);
  });

  test('is rejected from a person without the permission, who sees no form', async () => {
    const { email } = await newPerson(tenant);
    const visitor = new Visitor();
    await visitor.signIn(email);
    const page = await visitor.ask('/console');
    const form = new FormData();
    form.set('token', /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? '');
    form.set('logo', new File([new Uint8Array(newPng(10, 10))], 'logo.png'));
    expect((await visitor.ask(home)).text).not.toContain('type="file"');
    expect((await visitor.ask(home, form)).status).toBe(403);
    expect(await database()`select from company_logos where company_id = ${tenant.companyId}`).toHaveLength(0);
  });
});

test('serves the logo of a workspace under its own address only', async () => {
  const other = await newTenant();
  const visitor = new Visitor();
  await visitor.signIn(other.admin.email);
  await upload(visitor, newPng(20, 20, 'other'));
  const path = findPath((await visitor.ask(home)).text);
  const fetchStatus = async (each: string): Promise<number> => (await fetch(inject('baseUrl') + each)).status;
  expect(await fetchStatus(path)).toBe(200);
  expect(await fetchStatus(path.replace(other.companyId, tenant.companyId))).toBe(404);
});

test('recognizes images by their bytes', () => {
  const gif = Buffer.concat([Buffer.from('GIF89a'), Buffer.from([7, 0, 9, 0, 0, 0, 0])]);
  expect(readImage(gif)).toEqual({ contentType: 'image/gif', width: 7, height: 9 });
  const jpeg = Buffer.from('ffd8ffe000044a46ffc0000b080009000701011100', 'hex');
  expect(readImage(jpeg)).toEqual({ contentType: 'image/jpeg', width: 7, height: 9 });
  const webp = (chunk: string, data: string): Buffer =>
    Buffer.concat([Buffer.from(`RIFF\0\0\0\0WEBP${chunk}\0\0\0\0`, 'latin1'), Buffer.from(data, 'hex')]);
  const size = { contentType: 'image/webp', width: 7, height: 9 };
  expect(readImage(webp('VP8 ', '0000009d012a07000900'))).toEqual(size);
  expect(readImage(webp('VP8L', '2f060002000000000000'))).toEqual(size);
  expect(readImage(webp('VP8X', '00000000060000080000'))).toEqual(size);
  for (const broken of ['', 'ffd8ff', 'ffd8ffe0ffff', '89504e470d0a1a0a', '47494638396107'])
    expect(readImage(Buffer.from(broken, 'hex'))).toBeUndefined();
});
