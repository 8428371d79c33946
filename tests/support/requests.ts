// A good request for any operation of the document: its own example, with a credential that opens it and ids that exist.
import { inject } from 'vitest';
import { arrangedBodies, arrangedPaths, type Mode } from './arranged-ids.ts';
import type { CallOptions } from './client.ts';
import type { DeclaredOperation } from './document.ts';
import { bodyExamples, queryParameters } from './schemas.ts';
import { adminPassword, database, newPlatformKey, newTenant, type Tenant } from './tenants.ts';

export interface Alternative {
  scheme: 'apiKey' | 'oauth' | 'session';
  scopes: string[];
}

export interface PreparedRequest {
  path: string;
  options: CallOptions;
}

/** What the document lists under an operation's security, one scheme each; empty for public operations. */
export function alternativesOf(operation: DeclaredOperation): Alternative[] {
  return ((operation.declared.security ?? []) as Record<string, string[]>[]).flatMap((alternative) =>
    Object.entries(alternative).map(([scheme, scopes]) => ({ scheme: scheme as Alternative['scheme'], scopes })),
  );
}

/** True for operations of the platform's operator, which no workspace key opens. */
export function isForPlatform(operation: DeclaredOperation): boolean {
  return alternativesOf(operation).some((alternative) => alternative.scopes.includes('onboarding'));
}

/** A path with its parameters filled in. */
export function fillPath(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? '').replaceAll('%3A', ':'),
  );
}

/** The names of a path's parameters. */
export function pathParameters(template: string): string[] {
  return [...template.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
}

/** A tenant on the widest plan, so that no module is missing. */
export async function newWideTenant(): Promise<Tenant> {
  const tenant = await newTenant('Wide');
  await database()`update subscriptions set package_code = 'enterprise' where company_id = ${tenant.companyId}`;
  return tenant;
}

let platformKey: Promise<string> | undefined;
const tokens = new WeakMap<Tenant, Promise<string>>();

/** A session token of a tenant's administrator, from a sign-in of its own. */
export async function signIn(tenant: Tenant, baseUrl: string = inject('baseUrl')): Promise<string> {
  const response = await fetch(`${baseUrl}/auth/v1/token?grant_type=password`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: tenant.admin.email, password: adminPassword }),
  });
  const { access_token: token } = (await response.json()) as { access_token?: string };
  if (!token) throw new Error(`the sign-in answered ${response.status}`);
  return token;
}

/** The session token that a tenant's requests share. */
export function sharedToken(tenant: Tenant): Promise<string> {
  const known = tokens.get(tenant);
  if (known) return known;
  const made = signIn(tenant);
  tokens.set(tenant, made);
  return made;
}

/** A credential that opens an operation for a tenant. */
export async function credentialFor(
  operation: DeclaredOperation,
  tenant: Tenant,
  mode: Mode = 'live',
): Promise<Pick<CallOptions, 'key' | 'token'>> {
  const alternatives = alternativesOf(operation);
  if (alternatives.length === 0) return {};
  if (isForPlatform(operation)) {
    platformKey ??= newPlatformKey();
    return { key: await platformKey };
  }
  if (alternatives.some((alternative) => alternative.scheme === 'apiKey'))
    return { key: mode === 'live' ? tenant.key : tenant.testKey };
  // The one operation that ends the session it is called with.
  return { token: await (operation.id === 'endSession' ? signIn(tenant) : sharedToken(tenant)) };
}

/** The query of the document's examples, required parameters only. */
export function exampleQuery(operation: DeclaredOperation): Record<string, string> {
  const needed = queryParameters(operation).filter((parameter) => parameter.required);
  return Object.fromEntries(
    needed.map((parameter) => [parameter.name, String(parameter.example ?? parameter.schema.enum?.[0])]),
  );
}

/** The body of the document's example. @param index which of its examples */
export async function exampleBody(
  operation: DeclaredOperation,
  tenant: Tenant,
  mode: Mode = 'live',
  index = 0,
): Promise<unknown> {
  const example = bodyExamples(operation)[index];
  const arrange = arrangedBodies[operation.id];
  return arrange && example !== undefined
    ? arrange(structuredClone(example) as never, tenant, mode)
    : structuredClone(example);
}

/**
 * A request that the operation accepts.
 * @param values path parameters in place of some that exist
 */
export async function goodRequest(
  operation: DeclaredOperation,
  tenant: Tenant,
  mode: Mode = 'live',
  values?: Record<string, string>,
): Promise<PreparedRequest> {
  const filled = values ?? (await arrangedPaths[operation.path]?.exists(tenant, mode)) ?? {};
  const body = await exampleBody(operation, tenant, mode);
  return {
    path: fillPath(operation.path, filled),
    options: {
      ...(await credentialFor(operation, tenant, mode)),
      query: exampleQuery(operation),
      ...(body === undefined ? {} : { body }),
      ...(operation.declared['x-idempotency'] ? { idempotencyKey: true as const } : {}),
    },
  };
}
