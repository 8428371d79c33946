// Rules of every operation, walked from the spec, so that new operations are covered immediately.
import { beforeAll, describe, expect, test } from 'vitest';
import { everyModule, newBearer } from '../support/access-tokens.ts';
import { arrangedOptions, newObject } from '../support/arranged-ids.ts';
import { type Answer, anyAddress, type CallOptions, call } from '../support/client.ts';
import { inLanes } from '../support/concurrency.ts';
import { type DeclaredOperation, document, operations } from '../support/document.ts';
import { exchange, requestText } from '../support/raw-connection.ts';
import { credentialFor, goodRequest, isForPlatform, listAlternatives, newWideTenant } from '../support/requests.ts';
import { bodyExamples, queryParameters } from '../support/schemas.ts';
import { database, newKey, newPlatformKey, type Tenant } from '../support/tenants.ts';
import {
  anyPath,
  changesBy,
  exempt,
  expectFailure,
  guarded,
  oneOfEach,
  openedByKey,
  openedByOAuth,
  openedBySession,
} from '../support/walk.ts';

let tenant: Tenant;
/** A tenant with the maximum number of keys. */
let crowded: Tenant;

beforeAll(async () => {
  [tenant, crowded] = await Promise.all([newWideTenant(), newWideTenant()]);
});

/** Operations that change nothing in a new workspace: its clock is on the real time, and nobody was notified. */
const withoutEffect = new Set(['resetTestClock', 'markNotifications']);

const examples = operations.flatMap((operation) =>
  Array.from({ length: Math.max(1, bodyExamples(operation).length) }, (_, index) => ({
    id: operation.id,
    number: index + 1,
    operation,
  })),
);
test.each(examples)(
  'accepts example $number of $id, and audits it if it changes something',
  async ({ operation, number }) => {
    // Some examples change the configuration that others rely on.
    const { path, options } = await goodRequest(operation, await newWideTenant(), { example: number - 1 });
    const answer = await call(operation.method, path, options);
    expect({ status: answer.status, answer: answer.text }).toMatchObject({
      status: expect.toSatisfy((status: number) => status >= 200 && status < 300),
    });
    // Operations with these names query with a body.
    const changes =
      operation.method !== 'GET' &&
      !/^(check|get|preview|search)[A-Z]/.test(operation.id) &&
      !withoutEffect.has(operation.id);
    expect(await changesBy(answer)).toEqual(changes ? expect.toSatisfy(isPositive) : 0);
  },
);

/** Returns true if a gateway signs its requests. */
const isSigned = (operation: DeclaredOperation): boolean =>
  listAlternatives(operation).some(({ scheme }) => scheme === 'signature');

/** The API generates these, so another example would break the signature. */
const givenOut = ['company_id', 'environment', 'exp', 'sig'];

test.each(operations.filter((operation) => queryParameters(operation).some(({ example }) => example !== undefined)))(
  'accepts the examples of optional query parameters of $id',
  async (operation) => {
    for (const { name, example, required } of queryParameters(operation)) {
      if (example === undefined || required || givenOut.includes(name)) continue;
      const { path, options } = await goodRequest(operation, tenant);
      const arranged = await arrangedOptions[operation.id]?.[name]?.(tenant);
      const answer = await call(operation.method, path, {
        ...options,
        // Arranged values name something that exists.
        query: { [name]: String(example), ...options.query, ...(arranged === undefined ? {} : { [name]: arranged }) },
      });
      expect({ name, status: answer.status, answer: answer.text }).toMatchObject({ name, status: 200 });
    }
  },
);

const isPositive = (count: number): boolean => count > 0;

describe('without a valid credential', () => {
  let revoked: string;
  let expired: string;
  let elsewhere: string;
  beforeAll(async () => {
    const ended = new Date(Date.now() - 1000);
    [revoked, expired, elsewhere] = await Promise.all([
      newKey(tenant, { revokedAt: ended }),
      newKey(tenant, { expiresAt: ended }),
      newKey(tenant, { ipAllowlist: ['192.0.2.0/24'] }),
    ]);
  });

  // Authentication precedes everything else. All spellings run for one operation of each kind of
  // authentication, and one for the others.
  const thorough = oneOfEach(guarded, (operation) => [
    listAlternatives(operation).map(({ scheme }) => scheme),
    isForPlatform(operation),
    ['x-answer', 'x-test-only', 'x-live-only', 'x-unpaid'].map((extension) => operation.declared[extension]),
  ]);

  test.each(guarded)('returns 401 from $id without a valid credential, and names the scheme', async (operation) => {
    const path = anyPath(operation);
    const isThorough = thorough.includes(operation);
    const ask = (options: CallOptions = {}): Promise<Answer> => call(operation.method, path, options);
    const missing = await ask();
    expectFailure(operation, missing, 401, 'MISSING_API_KEY');
    expect(missing.headers.get('www-authenticate')).toBe(isSigned(operation) ? 'Service-Signature' : 'Bearer');
    const unknown = `svc_live_${'0'.repeat(32)}`;
    const refused = {
      AUTH_INVALID_KEY: isThorough ? [unknown, 'svc_live_0', '', 'nonsense', `${tenant.key} `.repeat(2)] : [unknown],
      API_KEY_REVOKED: [revoked],
      API_KEY_EXPIRED: [expired],
    };
    for (const [code, keys] of Object.entries(refused)) {
      for (const key of keys) {
        const answer = await ask({ key });
        expectFailure(operation, answer, 401, code);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
    }
    for (const token of isThorough ? ['', 'nonsense', 'e30.e30.e30'] : ['nonsense']) {
      const answer = await ask({ headers: { authorization: `Bearer ${token}` } });
      expectFailure(operation, answer, 401, 'AUTH_INVALID_KEY');
      expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
    }
  });

  test.each(openedByKey)(
    'returns 403 IP_NOT_ALLOWED from $id for an address outside the allowlist of a key',
    async (operation) => {
      const answer = await call(operation.method, anyPath(operation), { key: elsewhere });
      expectFailure(operation, answer, 403, 'IP_NOT_ALLOWED', {});
    },
  );
});

describe('without a subscription', () => {
  let unpaid: Tenant;
  beforeAll(async () => {
    unpaid = await newWideTenant();
    await database()`update subscriptions set status = 'canceled' where company_id = ${unpaid.companyId}`;
  });

  test.each(openedByKey.filter((operation) => !isForPlatform(operation) && !operation.declared['x-unpaid']))(
    'returns 402 from $id without a subscription',
    async (operation) => {
      const key = operation.declared['x-test-only'] ? unpaid.testKey : unpaid.key;
      const answer = await call(operation.method, anyPath(operation), { key });
      expectFailure(operation, answer, 402, 'QUOTA_EXCEEDED', { reason: 'subscription_ended' });
    },
  );
});

test('keeps operations for the bill and a new subscription available without a subscription', async () => {
  const unpaid = await newWideTenant();
  await database()`update subscriptions set status = 'canceled', ended_at = now() where company_id = ${unpaid.companyId}`;
  const open = operations.filter((operation) => operation.declared['x-unpaid']);
  for (const operation of open) {
    const { path, options } = await goodRequest(operation, unpaid);
    const answer = await call(operation.method, path, options);
    expect([operation.id, answer.status]).not.toEqual([operation.id, 402]);
  }
  expect(open.map(({ path }) => path).toSorted()).toEqual(unpaidPaths);
});

/** The paths available without a subscription. The list may only shrink. */
const unpaidPaths = [
  '/v1/billing/portal-session',
  '/v1/checkout-sessions/{id}',
  '/v1/invoices',
  '/v1/modules',
  '/v1/plans',
  '/v1/subscription',
  '/v1/subscription/preview',
  '/v1/usage',
];

describe('scopes', () => {
  const legacy: Record<string, string> = {
    'leads:read': 'leads:view',
    'leads:write': 'leads:create',
    'customers:read': 'customers:view',
    'customers:write': 'customers:create',
    'activities:read': 'activities:view',
    'activities:write': 'activities:create',
    'activities:update': 'activities:edit',
  };
  /** Implements the specification: returns true if a scope of a key grants another. */
  const grants = (held: string, needed: string): boolean => {
    if (needed === 'onboarding' || held === 'onboarding') return held === needed;
    if (held === '*') return true;
    const wanted = legacy[needed] ?? needed;
    if (held.endsWith(':*')) return wanted.slice(0, wanted.lastIndexOf(':')) === held.slice(0, -2);
    return (legacy[held] ?? held) === wanted;
  };
  const actions = ['view', 'create', 'edit', 'delete', 'configure', '*'];
  /**
   * Objects that a `{object}` of the spec may stand for, some with legacy names of their scopes.
   */
  const builtin = ['leads', 'deals', 'customers', 'accounts', 'tasks', 'activities'];

  let custom: string;
  beforeAll(async () => {
    custom = await newObject(crowded);
  });

  const catalogue = (): string[] => [
    '*',
    ...Object.keys(legacy),
    ...[...everyModule, custom].flatMap((module) => actions.map((action) => `${module}:${action}`)),
  ];

  type Credential = (operation: DeclaredOperation, scopes: string[]) => Promise<CallOptions>;

  const keys = new Map<string, Promise<string>>();
  /** Returns one key for each set of scopes, because most operations need the same sets. */
  const keyWith: Credential = async ({ declared }, scopes) => {
    const environment = declared['x-test-only'] ? 'test' : 'live';
    const name = [environment, ...scopes].join(' ');
    const key = keys.get(name) ?? newKey(crowded, { scopes, environment });
    keys.set(name, key);
    return { key: await key };
  };
  /** Returns a token of a new app each time, because an app may make only sixty calls a minute. */
  const tokenWith: Credential = async (_, scopes) => ({ token: await newBearer(crowded, scopes) });

  /** Credentials with scopes. Tokens get none of the scopes that only keys may have. */
  const holders = [
    { what: 'an API key', scheme: 'apiKey', opened: openedByKey, credential: keyWith, holds: () => true },
    {
      what: 'an OAuth token',
      scheme: 'oauth',
      opened: openedByOAuth,
      credential: tokenWith,
      holds: (scope: string) => scope !== '*' && scope !== 'onboarding',
    },
  ];

  /** Returns the minimal sets of scopes that grant everything needed. */
  const smallest = (needed: string[], held: string[]): string[][] => {
    const sets = needed.reduce<string[][]>(
      (some, scope) =>
        some.flatMap((set) => held.filter((each) => grants(each, scope)).map((each) => [...new Set([...set, each])])),
      [[]],
    );
    const isSmaller = (set: string[], other: string[]) =>
      set.length < other.length && set.every((each) => other.includes(each));
    return sets.filter((set) => !sets.some((other) => isSmaller(other, set)));
  };

  /**
   * Returns the maximal sets of scopes that grant no alternative, each without the scopes for one
   * needed scope of each alternative.
   */
  const largest = (alternatives: string[][], held: string[]): string[][] => {
    const choices = alternatives.reduce<string[][]>(
      (some, needed) => some.flatMap((lacking) => needed.map((scope) => [...lacking, scope])),
      [[]],
    );
    return choices.map((lacking) => held.filter((each) => !lacking.some((scope) => grants(each, scope))));
  };

  test('covers every module that an operation names', () => {
    const named = openedByKey.flatMap((operation) => listAlternatives(operation).flatMap(({ scopes }) => scopes));
    const modules = named.filter((scope) => /^\w+:/.test(scope)).map((scope) => scope.split(':')[0]);
    expect(modules.filter((module) => !everyModule.includes(module ?? ''))).toEqual([]);
  });

  // Other sets follow from these, because more scopes never grant less
  // (tests/access/scopes.test.ts).
  test.each(
    holders.flatMap(({ opened, ...holder }) => opened.map((operation) => ({ ...holder, operation, id: operation.id }))),
  )(
    'admits the smallest sets of scopes of $what to $id, and rejects the largest insufficient ones',
    async ({ operation, scheme: wanted, credential, holds }) => {
      const listed = listAlternatives(operation)
        .filter(({ scheme }) => scheme === wanted)
        .map(({ scopes }) => scopes);
      const isOfObject = listed.some((scopes) => scopes.some((scope) => scope.startsWith('{')));
      const hasObject = operation.path.startsWith('/v1/objects/{object}');
      const objects = isOfObject ? [...builtin, custom] : hasObject ? ['accounts', custom] : [''];
      for (const object of objects) {
        const path = anyPath(operation, object ? { object } : {});
        const alternatives = listed.map((scopes) => scopes.map((scope) => scope.replace('{object}', object)));
        const view = isOfObject ? [`${object}:view`] : [];
        const isForOperator = alternatives.some((needed) => needed.includes('onboarding'));
        const all = [...catalogue(), ...(isForOperator ? ['onboarding'] : [])];
        const ask = async (scopes: string[], status: number, required: string[]): Promise<void> => {
          // Validation rejects the unknown parameter immediately after authorization, before
          // anything happens.
          const answer = await call(operation.method, path, {
            ...(await credential(operation, scopes)),
            query: { zzz: 'zzz' },
          });
          expect({ scopes, object, status: answer.status }).toEqual({ scopes, object, status });
          if (status !== 403) return;
          expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE');
          expect(answer.body.error.details.required_scopes.toSorted()).toEqual([...new Set(required)].toSorted());
        };
        const findLacking = (scopes: string[]): string[] =>
          alternatives.flat().filter((scope) => !scopes.some((each) => holds(each) && grants(each, scope)));
        const closed = largest(alternatives, all.filter(holds)).map((scopes) => [
          ...scopes,
          ...all.filter((each) => !holds(each)),
        ]);
        const unrelated = all.filter((each) => ![...alternatives.flat(), ...view].some((scope) => grants(each, scope)));
        const nothing = [...view, unrelated.find(holds) ?? ''];
        const opening = alternatives.flatMap((needed) => smallest([...needed, ...view], all.filter(holds)));
        const tries: Parameters<typeof ask>[] = [
          ...opening.map((scopes): Parameters<typeof ask> => [scopes.length > 0 ? scopes : nothing, 400, []]),
        ];
        for (const scopes of closed) {
          const isHidden = view.some((scope) => !scopes.some((each) => holds(each) && grants(each, scope)));
          tries.push([scopes, isHidden ? 404 : 403, findLacking(scopes)]);
        }
        // Without the view scope, the object does not exist for the caller, even with other scopes.
        if (isOfObject) tries.push([all.filter((each) => !holds(each) || !grants(each, `${object}:view`)), 404, []]);
        const isNeeded = alternatives.every((needed) => findLacking(nothing).some((scope) => needed.includes(scope)));
        if (isNeeded) tries.push([nothing, 403, findLacking(nothing)]);
        // The platform key has no workspace, even with all scopes.
        if (wanted === 'apiKey' && !isForOperator) tries.push([[...all, 'onboarding'], 403, []]);
        if (wanted === 'oauth') tries.push([['*', 'onboarding', ...view], isNeeded ? 403 : 400, findLacking(view)]);
        await inLanes(4, tries, (each) => ask(...each));
      }
    },
  );

  const switchedOff = new Map<string, Promise<Tenant>>();
  const tenantWithout = async (module: string): Promise<Tenant> => {
    const made = await newWideTenant();
    await database()`update companies set disabled_modules = ${[module]} where id = ${made.companyId}`;
    return made;
  };
  const ofModule = openedByKey.filter((operation) =>
    listAlternatives(operation).some(({ scopes }) => scopes.some((scope) => scope.includes(':'))),
  );
  test.each(ofModule)(
    'returns 403 MODULE_DISABLED from $id while an administrator has disabled its module',
    async (operation) => {
      const [scope = ''] = listAlternatives(operation).find(({ scheme }) => scheme === 'apiKey')?.scopes ?? [];
      const module = scope.replace('{object}', 'accounts').split(':')[0] ?? '';
      const without = switchedOff.get(module) ?? tenantWithout(module);
      switchedOff.set(module, without);
      const answer = await call(operation.method, anyPath(operation), { key: (await without).key });
      expectFailure(operation, answer, 403, 'MODULE_DISABLED', { module, reason: 'disabled_by_admin' });
    },
  );

  const onlyKeys = openedByKey.filter((operation) => !openedBySession.includes(operation));
  test.skipIf(openedBySession.length === 0).each(onlyKeys)('rejects a session token in $id', async (operation) => {
    const session = openedBySession[0] as DeclaredOperation;
    const answer = await call(
      operation.method,
      anyPath(operation),
      await credentialFor({ ...session, id: '' }, tenant),
    );
    expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'api_key_required' });
  });

  const onlySessions = openedBySession.filter((operation) => !openedByKey.includes(operation));
  test.each(onlySessions)('rejects an API key with every scope in $id', async (operation) => {
    const answer = await call(operation.method, anyPath(operation), { key: tenant.key });
    expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'session_token_required' });
  });

  const noApps = guarded.filter((operation) => !openedByOAuth.includes(operation));
  test.each(noApps)('rejects an OAuth token with every scope in $id', async (operation) => {
    const answer = await call(operation.method, anyPath(operation), { token: await newBearer(tenant) });
    const reason = isSigned(operation)
      ? 'signature_required'
      : openedBySession.includes(operation)
        ? 'session_token_required'
        : 'api_key_required';
    expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { required_scopes: [], reason });
  });

  test.each(operations.filter((operation) => operation.declared['x-live-only']))(
    'rejects a test key in $id, because both modes share what it changes',
    async (operation) => {
      const answer = await call(operation.method, anyPath(operation), { key: tenant.testKey });
      expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'live_key_required' });
    },
  );

  test.each(operations.filter((operation) => operation.declared['x-test-only']))(
    'rejects a live key in $id, because it concerns only test data',
    async (operation) => {
      const answer = await call(operation.method, anyPath(operation), { key: tenant.key });
      expectFailure(operation, answer, 403, 'FORBIDDEN_SCOPE', { reason: 'test_key_required' });
    },
  );
});

describe('limits', () => {
  test.each(operations)('returns 429 from $id when the limit is used up, with the time to retry', async (operation) => {
    const path = anyPath(operation);
    const ip = anyAddress();
    const isOfKey = openedByKey.includes(operation);
    const credential = isForPlatform(operation)
      ? { key: await newPlatformKey({ perMinute: 1 }) }
      : isOfKey
        ? {
            key: await newKey(tenant, {
              perMinute: 1,
              environment: operation.declared['x-test-only'] ? 'test' : 'live',
            }),
          }
        : await credentialFor({ ...operation, id: '' }, await newWideTenant());
    let answer: Answer;
    let calls = 0;
    // Rejected calls count as well.
    do {
      answer = await call(operation.method, path, { ...credential, ip, query: { ...credential.query, zzz: '' } });
      calls += 1;
    } while (answer.status === 400 && calls < 700);
    expectFailure(operation, answer, 429, 'RATE_LIMIT_EXCEEDED');
    const seconds = Number(answer.headers.get('retry-after'));
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
    if (exempt.envelope.includes(operation.id)) return;
    expect(answer.body.error.details).toEqual({
      limit: calls - 1,
      remaining: 0,
      reset: Number(answer.headers.get('x-ratelimit-reset')),
      retry_after: seconds,
    });
  });
});

describe('methods', () => {
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'];
  const paths = Object.keys(document.paths ?? {}).map((path) => {
    const declared = operations.filter((operation) => operation.path === path).map((operation) => operation.method);
    const allowed = [...declared, ...(declared.includes('GET') ? ['HEAD'] : []), 'OPTIONS'];
    return { path, declared, allowed };
  });

  test.each(paths)('answers OPTIONS of $path with 204 and its methods', async ({ path, allowed }) => {
    const answer = await call('OPTIONS', path.replace(/\{\w+\}/g, 'x'));
    expect({ status: answer.status, text: answer.text }).toEqual({ status: 204, text: '' });
    expect(answer.headers.get('allow')?.split(', ').toSorted()).toEqual(allowed.toSorted());
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  });

  test.each(paths)('rejects other methods of $path with 405 and its methods', async ({ path, declared, allowed }) => {
    for (const method of methods.filter((each) => !declared.includes(each))) {
      const { status, headers, body } = await exchange(requestText(method, path.replace(/\{\w+\}/g, 'x')));
      expect({ method, status }).toEqual({ method, status: 405 });
      expect(headers.get('allow')?.split(', ').toSorted()).toEqual(allowed.toSorted());
      expect(JSON.parse(body).error).toMatchObject({
        code: 'METHOD_NOT_ALLOWED',
        details: { allowed_methods: expect.arrayContaining(allowed) },
      });
    }
  });

  test.each(operations.filter((operation) => operation.method === 'GET'))(
    'answers HEAD of $id like GET, without the body',
    async (operation) => {
      const { path, options } = await goodRequest(operation, tenant);
      const asked = await call('GET', path, options);
      const head = await call('HEAD', path, options);
      expect({ status: head.status, text: head.text }).toEqual({ status: asked.status, text: '' });
      for (const name of ['content-type', 'content-length', 'cache-control'])
        expect([name, head.headers.get(name)]).toEqual([name, asked.headers.get(name)]);
    },
  );
});

test('rejects workspace keys in platform operations', () => {
  expect(
    guarded
      .filter(isForPlatform)
      .map((operation) => operation.path)
      .toSorted(),
  ).toEqual(['/v1/check-email', '/v1/onboard']);
});
