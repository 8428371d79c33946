// Ids in the paths of every operation: invisible ids answer like ids that do not exist.
import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { everyModule, newBearer } from '../support/access-tokens.ts';
import { arrangedPaths, type Mode, newBranch, removeRecord } from '../support/arranged-ids.ts';
import { type Answer, type CallOptions, call } from '../support/client.ts';
import { inLanes } from '../support/concurrency.ts';
import type { DeclaredOperation } from '../support/document.ts';
import { goodRequest, newWideTenant } from '../support/requests.ts';
import { newKey, newUser, type Tenant } from '../support/tenants.ts';
import { openedByKey, openedByOAuth, withIds } from '../support/walk.ts';

let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  [tenant, other] = await Promise.all([newWideTenant(), newWideTenant()]);
});

test('declares in tests/support/arranged-ids.ts what exists under every path with parameters', () => {
  expect(withIds.map((operation) => operation.path).filter((path) => !arrangedPaths[path])).toEqual([]);
});

describe.skipIf(withIds.length === 0)('ids that this caller cannot see', () => {
  const malformed = [
    'x',
    '0',
    '%',
    ' ',
    'a/b',
    '\0',
    '{}',
    "' or 1=1 --",
    '019a9f5e-7c1b-7cc3-8f3a',
    '😀',
    'x'.repeat(300),
  ];

  interface Hidden {
    what: string;
    values: Record<string, string>;
    /** The same code rejects it for every caller and in both modes, because it is no id. */
    isMalformed: boolean;
  }

  async function hiddenPaths(operation: DeclaredOperation, mode: Mode): Promise<Hidden[]> {
    const arranged = arrangedPaths[operation.path];
    if (!arranged) return [];
    const own = await arranged.exists(tenant, mode);
    const ofNobody: Hidden[] = [];
    const foreign = arranged.foreign ?? arranged.exists;
    const hidden: [string, Record<string, string>][] = [
      ["another tenant's live id", await foreign(other, 'live')],
      ["another tenant's test id", await foreign(other, 'test')],
    ];
    if (!arranged.shared)
      hidden.push(['an id of the other mode', await arranged.exists(tenant, mode === 'live' ? 'test' : 'live')]);
    if (arranged.recordsOf) {
      const deleted = await arranged.exists(tenant, mode);
      await removeRecord(tenant, arranged.recordsOf, deleted.id ?? '');
      hidden.push(['the id of a deleted record', deleted]);
    }
    for (const [name, value] of Object.entries(own)) {
      const isUuid = /^[0-9a-f]{8}-/.test(value);
      const random = isUuid
        ? [randomUUID(), uuidv7(), '00000000-0000-0000-0000-000000000000']
        : [`object:${randomUUID().slice(0, 8)}`, `a${randomUUID().slice(0, 8)}`];
      const spelled = isUuid
        ? [`urn:uuid:${value}`, `{${value}}`, value.replaceAll('-', ''), `${value}0`]
        : [`${value}x`, value.toUpperCase()];
      const described = (text: string) => `${name} ${JSON.stringify(text.slice(0, 60))}`;
      for (const text of random) hidden.push([described(text), { [name]: text }]);
      for (const text of mode === 'live' ? [...spelled, ...malformed] : [])
        ofNobody.push({ what: described(text), values: { ...own, [name]: text }, isMalformed: true });
    }
    return [
      ...hidden.map(([what, values]) => ({ what, values: { ...own, ...values }, isMalformed: false })),
      ...ofNobody,
    ];
  }

  /** Expects the same 404 for every reason. */
  function expectHidden(what: string, mode: Mode, { status, body }: Answer): void {
    expect({ what, mode, status, body: { ...body, meta: Object.keys(body?.meta ?? {}) } }).toEqual({
      what,
      mode,
      status: 404,
      body: {
        success: false,
        error: { code: 'NOT_FOUND', message: 'There is no such resource.' },
        meta: ['request_id', 'timestamp', ...(mode === 'test' ? ['test_mode'] : [])],
      },
    });
  }

  const listModes = (operation: DeclaredOperation): Mode[] =>
    operation.declared['x-live-only'] === true || !openedByKey.includes(operation) ? ['live'] : ['live', 'test'];

  test.each(withIds)('returns the same 404 from $id for every invisible id', async (operation) => {
    for (const mode of listModes(operation)) {
      const legacyKey = await newKey(tenant, { environment: mode, legacy: true });
      await inLanes(4, await hiddenPaths(operation, mode), async ({ what, values, isMalformed }) => {
        const { path, options } = await goodRequest(operation, tenant, { mode, values });
        const credentials: CallOptions[] = options.key && !isMalformed ? [{}, { key: legacyKey }] : [{}];
        // Tokens of apps are live. An app has a low rate limit, so each call has its own app.
        if (mode === 'live' && openedByOAuth.includes(operation) && !isMalformed) {
          const modules = values.object?.startsWith('object:') ? [...everyModule, values.object] : everyModule;
          const scopes = modules.map((module) => `${module}:*`);
          credentials.push({ key: undefined, token: await newBearer(tenant, scopes) });
        }
        for (const credential of credentials)
          expectHidden(what, mode, await call(operation.method, path, { ...options, ...credential }));
      });
    }
  });

  const withRecords = withIds.filter((operation) => arrangedPaths[operation.path]?.recordsOf);
  test.each(withRecords)('returns the same 404 from $id for a record outside the visibility', async (operation) => {
    const branch = await newBranch(tenant);
    for (const mode of listModes(operation)) {
      const key = await newKey(tenant, { environment: mode, reach: { kind: 'branch', id: branch } });
      const { path, options } = await goodRequest(operation, tenant, { mode });
      expectHidden('out of reach', mode, await call(operation.method, path, { ...options, key }));
      if (mode === 'live' && openedByOAuth.includes(operation)) {
        // A user in another branch, and one who sees only their own records.
        for (const [role, branchId] of [
          ['Branch_Manager', branch],
          ['Sales_Manager', tenant.branchId],
        ] as const) {
          const { id: userId } = await newUser(tenant, { role, branchId });
          const credential = { key: undefined, token: await newBearer(tenant, undefined, { userId }) };
          expectHidden(
            `out of reach of a ${role}`,
            mode,
            await call(operation.method, path, { ...options, ...credential }),
          );
        }
      }
      const { status } = await call(operation.method, path, options);
      expect(status).toBeLessThan(300);
    }
  });
});
