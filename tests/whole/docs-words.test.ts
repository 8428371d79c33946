// The OpenAPI document as text to read: consistent words, and nothing left undescribed.

import { describe, expect, test } from 'vitest';
import { document, operations, resolve } from '../support/document.ts';
import { listAlternatives } from '../support/requests.ts';
import { bodySchema } from '../support/schemas.ts';

interface Described {
  $ref?: string;
  description?: string;
  readOnly?: boolean;
}

/** Returns its description, here or where it is defined. */
function readDescription(described: Described): string {
  return described.description ?? (described.$ref ? readDescription(resolve(described.$ref) as Described) : '');
}

/** The beginning of summaries, by the verb of the operationId if the verb determines it. */
const beginnings: Record<string, RegExp> = {
  list: /^List /,
  get: /^(Get|Check|Find|Ask|Download) /,
  delete: /^Delete /,
  rotate: /^Rotate /,
  revoke: /^Revoke /,
};

const getVerb = (id: string): string => /^[a-z]+/.exec(id)?.[0] ?? '';

describe('every operation', () => {
  test.each(operations)(
    'begins the summary of $id with the verb of its kind, without a full stop',
    ({ id, declared }) => {
      expect(declared.summary).toMatch(beginnings[getVerb(id)] ?? /^[A-Z]/);
      expect(declared.summary).not.toMatch(/\.$/);
    },
  );

  const guarded = operations.filter((operation) => listAlternatives(operation).length > 0);
  test.each(guarded)('describes the scopes or credentials of $id in words', ({ declared }) => {
    const scopes = (declared.security ?? []).flatMap(({ apiKey = [] }) => apiKey);
    // Scopes of the object in the path are described as the view scope of the object.
    for (const scope of scopes) expect(declared.description).toContain(scope.startsWith('{object}') ? 'scope' : scope);
    if (scopes.length === 0) expect(declared.description).toMatch(/credential|session\s+token|signed-in|no scope/i);
  });

  test.each(operations)('describes each parameter and each writable body field of $id', (operation) => {
    const { declared, path } = operation;
    const shared = (document.paths?.[path]?.parameters ?? []) as Described[];
    const parameters = [...shared, ...((declared.parameters ?? []) as Described[])];
    const fields = Object.entries((bodySchema(operation)?.properties ?? {}) as Record<string, Described>)
      .filter(([, field]) => !field.readOnly && readDescription(field) === '')
      .map(([name]) => name);
    expect(parameters.filter((parameter) => readDescription(parameter) === '')).toEqual([]);
    expect(fields).toEqual([]);
  });
});

test('puts every tag into one group, with a description', () => {
  const { tags = [], 'x-tagGroups': groups } = document as typeof document & { 'x-tagGroups': { tags: string[] }[] };
  expect(groups.flatMap((group) => group.tags).toSorted()).toEqual(tags.map(({ name }) => name).toSorted());
  expect(tags.filter(({ description }) => !description)).toEqual([]);
});

test('links only to existing operations, tags and guides in descriptions', () => {
  const toAnchor = (title: string): string => title.trim().replaceAll(/\s+/g, '-');
  const listSections = (text = ''): string[] =>
    [...text.matchAll(/^## (.+)$/gm)].map(([, title = '']) => toAnchor(title));
  const targets = new Set([
    ...operations.map(({ id }) => `operation/${id}`),
    ...(document.tags ?? []).flatMap(({ name, description }) =>
      ['', ...listSections(description).map((section) => `/${section}`)].map((end) => `tag/${toAnchor(name)}${end}`),
    ),
    ...listSections(document.info.description).map((section) => `section/${section}`),
  ]);
  const links = [...JSON.stringify(document).matchAll(/\]\(#([^)]+)\)/g)].map(([, target = '']) => target);
  expect(links.length).toBeGreaterThan(50);
  expect(links.filter((target) => !targets.has(target))).toEqual([]);
});
