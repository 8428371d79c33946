// Typical work through the MCP clients of both protocol generations.
import { beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { call } from '../support/client.ts';
import { generations, type McpClient, withKey } from '../support/mcp.ts';
import { newWideTenant } from '../support/requests.ts';
import { usualPool } from '../support/scheduling.ts';
import { newKey, type Tenant } from '../support/tenants.ts';

let tenant: Tenant;

beforeAll(async () => {
  tenant = await newWideTenant();
});

describe.each(generations)('a client of %s', (generation) => {
  let client: McpClient;
  const use = async (name: string, args: Record<string, unknown> = {}): Promise<Json> => {
    const result = await client.callTool({ name, arguments: args });
    expect(result.isError, JSON.stringify(result.content)).toBeUndefined();
    expect(JSON.parse(result.content[0].text)).toEqual(result.structuredContent);
    return result.structuredContent;
  };

  beforeAll(async () => {
    client = await withKey(tenant.key, generation);
    return () => client.close();
  });

  test('identifies itself, creates a lead, finds it, and drafts a message', async () => {
    expect(client.getServerVersion()).toMatchObject({ name: 'headless-crm', version: '1.0.0' });
    expect((await use('whoami')).company.id).toBe(tenant.companyId);
    const email = `sara-${generation}@example.com`;
    const { lead } = await use('create_lead', { first_name: 'Sara', email });
    const found = await use('search', { q: email });
    expect(found.groups[0].hits[0].id).toBe(lead.id);
    const filter = { field: 'email', op: 'eq', value: email };
    const { records } = await use('query_records', { object: 'leads', filter, fields: 'email' });
    expect(records).toEqual([expect.objectContaining({ id: lead.id, email })]);
    expect(records[0]).not.toHaveProperty('first_name');
    const about = { object: 'leads', record_id: lead.id };
    const drafted = await use('draft_message', { channel: 'email', to: email, subject: 'Hi', body: 'Hello', ...about });
    expect(drafted).toMatchObject({
      draft: { status: 'draft', sent_at: null },
      hint: expect.stringContaining('console'),
    });
  });

  test('reads a list page by page', async () => {
    const rows = Array.from({ length: 25 }, (_, index) => ({ name: `Account ${generation} ${index}` }));
    await use('batch_create_records', { object: 'accounts', records: rows });
    const filter = { field: 'name', op: 'contains', value: generation };
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await use('query_records', { object: 'accounts', filter, ...(cursor ? { cursor } : {}) });
      expect(page.records.length).toBeLessThanOrEqual(10);
      expect(page.hint).toEqual(page.next_cursor ? expect.stringContaining('next_cursor') : undefined);
      seen.push(...page.records.map((record: Json) => record.name));
      cursor = page.next_cursor ?? undefined;
    } while (cursor);
    expect(seen.toSorted()).toEqual(rows.map(({ name }) => name).toSorted());
  });

  test('finds a time, holds it and books it', async () => {
    await usualPool(tenant);
    const { pools } = await use('list_settings', { kind: 'scheduling_pools' });
    const days = (after: number): string => new Date(Date.now() + after * 86_400_000).toISOString();
    const { slots } = await use('find_slots', { pool_id: pools[0].id, from: days(30), to: days(33) });
    expect(slots).toHaveLength(10);
    const { slot_token } = slots[0];
    const { reservation } = await use('hold_slot', { slot_token });
    const { booking } = await use('book_meeting', {
      slot_token,
      reservation_id: reservation.id,
      attendee: { name: 'Sara', email: 'sara@example.com' },
      meeting: { title: 'First call' },
    });
    expect(booking.status).toBe('confirmed');
  });

  test('explains an error so that the second attempt succeeds', async () => {
    const wrong = await client.callTool({
      name: 'run_report',
      arguments: { object: 'leads', metric: 'count', group_by: 'colour' },
    });
    expect(wrong.isError).toBe(true);
    expect(wrong.structuredContent).toBeUndefined();
    expect(wrong.content[0].text).toMatch(/^VALIDATION_ERROR: .*\n- group_by \(\w+\): /);
    await use('run_report', { object: 'leads', metric: 'count', group_by: 'lead_status' });
  });

  test('reads the fields of an object and the guide', async () => {
    const { resources } = await client.listResources();
    expect(resources.map((each: Json) => each.uri)).toContain('schema://leads');
    expect((await client.listResourceTemplates()).resourceTemplates[0].uriTemplate).toBe('schema://{object}');
    const { contents } = await client.readResource({ uri: 'schema://leads' });
    const recorded = await call('GET', '/v1/objects/leads/schema', { key: tenant.key });
    expect(JSON.parse(contents[0].text)).toEqual(recorded.body.data);
    expect((await client.listPrompts()).prompts).toMatchObject([{ name: 'api_guide' }]);
    expect((await client.getPrompt({ name: 'api_guide' })).messages[0].content.text).toContain('query_records');
    await expect(client.readResource({ uri: 'schema://nothing' })).rejects.toThrow(/not found/i);
    await expect(client.getPrompt({ name: 'nothing' })).rejects.toThrow(/no prompt/);
  });

  test('shows only records of its mode', async () => {
    const other = await withKey(tenant.testKey, generation);
    const live = await use('query_records', { object: 'leads' });
    expect(live.records.length).toBeGreaterThan(0);
    expect(
      (await other.callTool({ name: 'query_records', arguments: { object: 'leads' } })).structuredContent,
    ).toMatchObject({
      records: [],
    });
    await other.close();
  });

  test('rejects an invalid API key', async () => {
    await expect(withKey(await newKey(tenant, { revokedAt: new Date() }), generation)).rejects.toThrow();
  });
});
