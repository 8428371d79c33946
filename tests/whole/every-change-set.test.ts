// Every write that offers a dry run, in a change set: it can be proposed and applied.
import { beforeAll, expect, test } from 'vitest';
import { call } from '../support/client.ts';
import { operations } from '../support/document.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { bodyExamples } from '../support/schemas.ts';
import { newPerson, tokenFor } from '../support/sessions.ts';
import type { Tenant } from '../support/tenants.ts';

const offering = operations.filter(({ declared }) => declared['x-dry-run']);
const examples = offering.flatMap((operation) =>
  (bodyExamples(operation).length > 0 ? bodyExamples(operation) : [undefined]).map((_, example) => ({
    id: operation.id,
    example,
    operation,
  })),
);

let tenant: Tenant;
beforeAll(async () => {
  tenant = await newWideTenant();
});

test.each(examples)('$id, example $example, is proposed and applied', async ({ id, operation, example }) => {
  const { path, options } = await goodRequest(operation, tenant, { example });
  const { body } = options;
  const proposed = { method: operation.method, path: decodeURI(path), ...(body === undefined ? {} : { body }) };
  const set = await call('POST', '/v1/change-sets', {
    key: tenant.key,
    body: { title: id, operations: [proposed] },
  });
  expect({ status: set.status, text: set.text }).toMatchObject({ status: 201 });
  const { id: setId, digest } = set.body.data.change_set;
  const approved = await call('POST', `/v1/change-sets/${setId}/approve`, {
    // Each person has a limit of calls per minute.
    token: await tokenFor(tenant, await newPerson(tenant, 'Company_Admin')),
    body: { digest },
  });
  expect({ text: approved.text, set: approved.body.data?.change_set }).toMatchObject({
    set: { status: 'applied', error: null, operations: [{ status: 'applied' }] },
  });
});
