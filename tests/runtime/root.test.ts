// GET /: redirects people to the documentation, and returns an API error to programs.
import { expect, inject, test } from 'vitest';

const ask = (method: string, accept?: string): Promise<Response> =>
  fetch(`${inject('baseUrl')}/`, { method, redirect: 'manual', headers: accept === undefined ? {} : { accept } });

test.each([
  ['a browser', 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'],
  ['curl', '*/*'],
  ['a browser that also names JSON', 'text/html, application/json;q=0.5'],
])('GET and HEAD / redirect %s to the documentation', async (_, accept) => {
  for (const method of ['GET', 'HEAD']) {
    const answer = await ask(method, accept);
    expect([answer.status, answer.headers.get('location'), answer.headers.get('vary')]).toEqual([
      302,
      '/docs',
      'accept',
    ]);
    expect(await answer.text()).toBe('');
  }
  const followed = await fetch(`${inject('baseUrl')}/`, { headers: { accept } });
  expect([followed.status, followed.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
});

test.each(['application/json', 'application/json, text/plain, */*'])(
  'GET / with Accept %s returns 404',
  async (accept) => {
    const answer = await ask('GET', accept);
    expect(answer.status).toBe(404);
    const { error } = (await answer.json()) as { error: { code: string; message: string } };
    expect(error).toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('/docs') });
  },
);

test('other methods on / return 404', async () => {
  expect((await ask('POST', '*/*')).status).toBe(404);
});
