// A valid request for any operation: its own example, a credential, and existing ids.
import { arrangedBodies, arrangedPaths, arrangedQueries, type Mode } from './arranged-ids.ts';
import type { CallOptions } from './client.ts';
import type { DeclaredOperation } from './document.ts';
import { inboundSecret } from './inbound.ts';
import { bodyExamples, queryParameters, takesUpload } from './schemas.ts';
import { signIn } from './sign-in.ts';
import { database, newPlatformKey, newTenant, type Tenant } from './tenants.ts';
import { fileForm } from './uploads.ts';

export interface Alternative {
  scheme: 'apiKey' | 'oauth' | 'session' | 'signature';
  scopes: string[];
}

export interface PreparedRequest {
  path: string;
  options: CallOptions;
}

/**
 * Returns the security alternatives of an operation, one scheme each. Empty for public operations.
 */
export function listAlternatives(operation: DeclaredOperation): Alternative[] {
  const listed = (operation.declared.security ?? []) as Record<string, string[]>[];
  if (listed.some((alternative) => Object.keys(alternative).length === 0)) return [];
  return listed.flatMap((alternative) =>
    Object.entries(alternative).map(([scheme, scopes]) => ({ scheme: scheme as Alternative['scheme'], scopes })),
  );
}

/** Returns true for operations of the platform's operator, which reject workspace keys. */
export function isForPlatform(operation: DeclaredOperation): boolean {
  return listAlternatives(operation).some((alternative) => alternative.scopes.includes('onboarding'));
}

/**
 * Fills in the parameters of a path.
 * @throws Error if one has no value, because the request would find nothing
 */
export function fillPath(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${template} has no ${name}`);
    return encodeURIComponent(value).replaceAll('%3A', ':');
  });
}

/** Returns the names of a path's parameters. */
export function pathParameters(template: string): string[] {
  return [...template.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
}

/** Creates a tenant on the largest plan, with every module. */
export async function newWideTenant(): Promise<Tenant> {
  const tenant = await newTenant('Wide');
  await database()`update subscriptions set package_code = 'enterprise' where company_id = ${tenant.companyId}`;
  return tenant;
}

const tokens = new WeakMap<Tenant, Promise<string>>();

/** Returns the session token that a tenant's requests share. */
export function sharedToken(tenant: Tenant): Promise<string> {
  const known = tokens.get(tenant);
  if (known) return known;
  const made = signIn(tenant).then((signedIn) => signedIn.access_token);
  tokens.set(tenant, made);
  return made;
}

/** Returns a credential of a tenant that opens an operation. */
export async function credentialFor(
  operation: DeclaredOperation,
  tenant: Tenant,
  mode: Mode = 'live',
): Promise<Pick<CallOptions, 'key' | 'token' | 'signedWith' | 'query'>> {
  const alternatives = listAlternatives(operation);
  if (alternatives.length === 0) return {};
  if (alternatives.some(({ scheme }) => scheme === 'signature'))
    return {
      signedWith: await inboundSecret(tenant, mode),
      query: { company_id: tenant.companyId, environment: mode },
    };
  if (isForPlatform(operation)) {
    return { key: await newPlatformKey() };
  }
  if (alternatives.some((alternative) => alternative.scheme === 'apiKey'))
    return { key: mode === 'live' && !operation.declared['x-test-only'] ? tenant.key : tenant.testKey };
  // This operation ends its own session.
  return { token: operation.id === 'endSession' ? (await signIn(tenant)).access_token : await sharedToken(tenant) };
}

/** Returns the required query parameters from the spec's examples. */
async function exampleQuery(
  operation: DeclaredOperation,
  body: unknown,
  tenant: Tenant,
  mode: Mode,
): Promise<Record<string, string>> {
  const needed = queryParameters(operation).filter((parameter) => parameter.required);
  return {
    ...Object.fromEntries(
      needed.map((parameter) => [parameter.name, String(parameter.example ?? parameter.schema.enum?.[0])]),
    ),
    ...(await arrangedQueries[operation.id]?.(body, tenant, mode)),
  };
}

/** Returns the body of one of the spec's examples. */
async function exampleBody(operation: DeclaredOperation, tenant: Tenant, mode: Mode, index: number): Promise<unknown> {
  const example = structuredClone(bodyExamples(operation)[index]);
  const arrange = arrangedBodies[operation.id];
  return arrange && example !== undefined ? arrange(example as never, tenant, mode) : example;
}

export interface RequestChoice {
  mode?: Mode;
  /** Path parameters to use instead of arranged ones. */
  values?: Record<string, string>;
  /** The index of the spec's example. */
  example?: number;
}

/** Returns a request that the operation accepts. */
export async function goodRequest(
  operation: DeclaredOperation,
  tenant: Tenant,
  { mode = 'live', values, example = 0 }: RequestChoice = {},
): Promise<PreparedRequest> {
  const body = await exampleBody(operation, tenant, mode, example);
  const filled = values ?? (await arrangedPaths[operation.path]?.exists(tenant, mode, body)) ?? {};
  const credential = await credentialFor(operation, tenant, mode);
  return {
    path: fillPath(operation.path, filled),
    options: {
      ...credential,
      query: { ...(await exampleQuery(operation, body, tenant, mode)), ...credential.query },
      ...(body === undefined ? {} : { body }),
      ...(takesUpload(operation) ? fileForm() : {}),
      ...(operation.declared['x-idempotency'] ? { idempotencyKey: true as const } : {}),
    },
  };
}
