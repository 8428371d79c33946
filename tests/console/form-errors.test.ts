// Errors of the console's forms: they name the label of the field, not its name in the API.
import { beforeAll, expect, test } from 'vitest';
import { type Furnished, furnishedTenant, listPages } from '../support/console.ts';
import { Visitor } from '../support/page-client.ts';

let furnished: Furnished;
let visitor: Visitor;
beforeAll(async () => {
  furnished = await furnishedTenant();
  visitor = new Visitor();
  await visitor.signIn(furnished.tenant.admin.email);
});

interface FoundForm {
  method: string;
  action: string;
  hidden: [string, string][];
  fields: { name: string; kind: string }[];
}

function listForms(text: string): FoundForm[] {
  return [...text.matchAll(/<form method="(\w+)" action="([^"]+)"[^>]*>(.*?)<\/form>/gs)].map(
    ([, method = '', action = '', content = '']) => ({
      method,
      action,
      hidden: [...content.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(
        ([, name = '', value = '']): [string, string] => [name, value],
      ),
      fields: [...content.matchAll(/<(input|select|textarea) id="[\w-]+" name="(\w+)"([^>]*)>/g)].map(
        ([, element = '', name = '', rest = '']) => ({ name, kind: / type="(\w+)"/.exec(rest)?.[1] ?? element }),
      ),
    }),
  );
}

/** Inputs that a browser would not send: every field is empty, of a wrong type, or too long. */
const inputs: Readonly<Record<string, (kind: string) => string>> = {
  empty: () => '',
  wrong: (kind) => (kind === 'password' ? 'short' : 'no such_value'),
  long: () => 'x'.repeat(3000),
};

/** Names as the API writes them: with underscores, or with the index of an element. */
const apiNames = /\b[a-z]+(?:_[a-z]+)+\b|\[\d+\]/g;

const strip = (text: string): string => text.replace(/<[^>]*>/g, '');

/** Returns the texts of the summary and of the fields that an error page shows. */
function listErrors(text: string): string[] {
  const summary = /<div role="alert">(.*?)<\/div>/s.exec(text)?.[1] ?? '';
  const items = [...summary.matchAll(/<li>(.*?)<\/li>/g)].map((match) => match[1] ?? '');
  const atFields = [...text.matchAll(/<p class="problem"[^>]*>(.*?)<\/p>/gs)].map((match) => match[1] ?? '');
  return [...(items.length > 0 ? items : [summary]), ...atFields].map(strip).filter((each) => each.trim() !== '');
}

test('names labels and no API names in the errors of every form', async () => {
  const rejected = new Set<string>();
  for (const [page, path] of Object.entries(listPages(furnished))) {
    const forms = listForms((await visitor.ask(path)).text).filter(({ fields }) => fields.length > 0);
    for (const { method, action, hidden, fields } of forms) {
      for (const [input, write] of Object.entries(inputs)) {
        const form = new URLSearchParams(hidden);
        for (const { name, kind } of fields) form.set(name, write(kind));
        const answer =
          method === 'post' ? await visitor.ask(action, form) : await visitor.ask(`${action.split('?')[0]}?${form}`);
        const where = `${page}: ${action}, ${input}`;
        expect([where, answer.status < 500]).toEqual([where, true]);
        if (answer.status < 400 || !answer.text.includes('role="alert"')) continue;
        rejected.add(action);
        for (const error of listErrors(answer.text)) {
          // A message may repeat what the person wrote.
          const own = error.replaceAll('such_value', '').match(apiNames) ?? [];
          expect([where, error, own]).toEqual([where, error, []]);
          expect([where, error, /^(?:[A-Z“]|no such_value|xxx)/.test(error)]).toEqual([where, error, true]);
        }
        for (const [, id = ''] of answer.text.matchAll(/<li><a href="#([^"]*)">/g))
          expect([where, id, answer.text.includes(` id="${id}"`)]).toEqual([where, id, true]);
      }
    }
  }
  // The walk found forms with fields, and they rejected the input.
  for (const action of ['/console/api-keys/new', '/console/webhooks/new', '/console/people/new', '/console/audit-log'])
    expect([...rejected]).toContain(action);
});

test('links the summary to the field, names an entry of a list, and focuses the first invalid field', async () => {
  const home = '/console/api-keys/new';
  const { text } = await visitor.send(home, {
    name: 'Office',
    environment: 'live',
    scopes: 'leads:view',
    ip_allowlist: '203.0.113.7\nnowhere',
    expires_at: '2020-01-01',
  });
  expect(text).toMatch(/<li><a href="#ip_allowlist">IP allowlist \(entry 2\) must be/);
  expect(text).toMatch(/<li><a href="#expires_at">Expires on must be in the future/);
  expect(text).toMatch(/<p class="problem" id="ip_allowlist-problem">IP allowlist \(entry 2\) must be/);
  expect(text.match(/ autofocus/g)).toHaveLength(1);
  expect(text).toMatch(
    /id="ip_allowlist"[^>]*aria-describedby="ip_allowlist-hint ip_allowlist-problem"[^>]* autofocus/,
  );
});
