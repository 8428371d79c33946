// tools/list: small, in common forms, and limited to the permissions of the credential.
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import { tools } from '../../mcp/tools.ts';
import type { Json } from '../support/client.ts';
import { document } from '../support/document.ts';
import { post, withKey } from '../support/mcp.ts';
import { newWideTenant } from '../support/requests.ts';
import { database, newKey, newTenant } from '../support/tenants.ts';

const readTools = async (key: string): Promise<Json[]> => (await post('tools/list', {}, { key })).body.result.tools;
const listNames = async (key: string): Promise<string[]> => (await readTools(key)).map(({ name }) => name);

describe('the list of tools', () => {
  test('lists all tools in at most 8,000 tokens', async () => {
    const tenant = await newWideTenant();
    const answer = await post('tools/list', {}, { key: tenant.key });
    const tokens = countTokens(answer.text);
    process.stdout.write(`tools/list: ${answer.body.result.tools.length} tools, ${tokens} tokens\n`);
    expect(answer.body.result.tools.map(({ name }: Json) => name)).toEqual(tools.map(({ name }) => name));
    expect(tokens).toBeLessThanOrEqual(8000);
  });

  test('lists the tools that the guide lists', () => {
    const { info } = document as { info: { description: string } };
    const section = info.description.split(/^## /m).find((part) => part.startsWith('Connect an AI assistant')) ?? '';
    const named = [...section.matchAll(/^\| (`[a-z_`, ]+`) \|/gm)].flatMap(([, names = '']) => names.match(/[a-z_]+/g));
    expect(named.toSorted()).toEqual(tools.map(({ name }) => name).toSorted());
  });

  test('says what the objects are', async () => {
    const { key } = await newWideTenant();
    const listed = JSON.stringify(await readTools(key));
    expect(listed).toContain('Customers are people, accounts are companies');
    expect(listed).toContain('customers (people), accounts (companies)');
  });

  test('describes each tool in a form that every client accepts', async () => {
    const tenant = await newWideTenant();
    for (const tool of await readTools(tenant.key)) {
      expect(tool.name).toMatch(/^[a-z_]{1,64}$/);
      expect(tool.title).toBeTruthy();
      expect(tool.description).toBeTruthy();
      const hints = tool.annotations.readOnlyHint || tool.annotations.destructiveHint !== undefined;
      expect(hints, tool.name).toBe(true);
      for (const schema of [tool.inputSchema, tool.outputSchema]) {
        expect(schema.type).toBe('object');
        for (const keyword of ['oneOf', 'anyOf', 'allOf', '$ref'])
          expect(JSON.stringify(schema)).not.toContain(`"${keyword}"`);
      }
      for (const other of tools)
        if (other.name.includes('_')) expect(tool.description, tool.name).not.toContain(other.name);
    }
  });

  test('gives every argument value a type', async () => {
    const tenant = await newWideTenant();
    const untyped = (schema: Json, path: string): string[] => [
      ...(schema.type === undefined && schema.enum === undefined ? [path] : []),
      ...(schema.type === 'array' && schema.items === undefined ? [`${path}[]`] : []),
      ...(schema.items ? untyped(schema.items, `${path}[]`) : []),
      ...Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => untyped(inner as Json, `${path}.${name}`)),
    ];
    const listed = await readTools(tenant.key);
    expect(listed.flatMap(({ name, inputSchema }) => untyped(inputSchema, name))).toEqual([]);
    const batch = listed.find(({ name }) => name === 'batch_create_records');
    expect(batch?.inputSchema.properties.records.items.type).toBe('object');
  });

  test('lists no tool that spends money, sends, deletes, cancels, or changes users, settings, keys or webhooks', () => {
    const called = new Set(
      tools.flatMap(({ calls }) =>
        typeof calls === 'string' ? [calls] : Object.values(Object.values(calls)[1] ?? calls),
      ),
    );
    for (const id of called)
      expect(String(id)).not.toMatch(
        /^(delete|cancel|revoke|rotate|release|reset|schedule|approve|send|upgrade|downgrade|(create|update)(User|Subscription|Checkout|Portal|Api|Webhook|Status|Tag|Source|Object|Field|Campaign|Workforce|Scheduling))/,
      );
  });

  test.each([
    [
      ['leads:view'],
      [
        'whoami',
        'list_objects',
        'describe_object',
        'search',
        'query_records',
        'get_record',
        'list_notes',
        'list_links',
      ],
    ],
    [['leads:create'], ['whoami', 'list_objects', 'search', 'create_lead']],
    [['billing:view'], ['whoami', 'list_objects', 'search', 'get_usage']],
    [['settings:view'], ['whoami', 'list_objects', 'search', 'list_settings']],
    [['reports:view'], ['whoami', 'list_objects', 'search', 'run_report', 'pipeline_report']],
    [['inbox:view'], ['whoami', 'list_objects', 'search', 'list_drafts']],
    [
      ['inbox:view', 'leads:view'],
      [
        'whoami',
        'list_objects',
        'describe_object',
        'search',
        'query_records',
        'get_record',
        'list_notes',
        'list_links',
        'list_drafts',
        'list_messages',
      ],
    ],
    [['bookings:view'], ['whoami', 'list_objects', 'search', 'list_settings', 'find_slots', 'list_bookings']],
    [['users:view'], ['whoami', 'list_objects', 'search', 'find_users']],
    [
      ['object:visits:view', 'object:visits:create'],
      [
        'whoami',
        'list_objects',
        'describe_object',
        'search',
        'query_records',
        'get_record',
        'create_record',
        'batch_create_records',
        'list_notes',
        'list_links',
      ],
    ],
  ])('lists with the scopes %j the permitted tools', async (scopes, names) => {
    const tenant = await newWideTenant();
    expect(await listNames(await newKey(tenant, { scopes }))).toEqual(names);
  });

  test('omits tools of a module that the plan lacks', async () => {
    const tenant = await newTenant();
    await database()`update subscriptions set package_code = 'starter', status = 'active' where company_id = ${tenant.companyId}`;
    const names = await listNames(tenant.key);
    expect(names).toContain('create_lead');
    expect(names).not.toContain('draft_message');
  });

  test('lets the caller cache the list for a minute, and keeps it stable', async () => {
    const tenant = await newWideTenant();
    const [first, second] = await Promise.all([1, 2].map(() => post('tools/list', {}, { key: tenant.key })));
    expect(first?.body).toEqual(second?.body);
    expect(first?.body.result).toMatchObject({ ttlMs: 60_000, cacheScope: 'private' });
  });

  test('lists the same tools for a client of 2025', async () => {
    const tenant = await newWideTenant();
    const client = await withKey(tenant.key, '2025-11-25');
    const { tools: shown } = await client.listTools();
    expect(shown).toEqual(await readTools(tenant.key));
    await client.close();
  });
});
