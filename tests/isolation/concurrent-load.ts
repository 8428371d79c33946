// Concurrent calls of the tenant and of others: shared lookups must not mix them up.
import { newBearer } from '../support/access-tokens.ts';
import { type CallOptions, call } from '../support/client.ts';
import { newWideTenant } from '../support/requests.ts';
import { database } from '../support/tenants.ts';

/** Credentials of the tenant, and of tenants without quota. */
export interface LoadCredentials {
  own: CallOptions[];
  others: CallOptions[];
}

/**
 * Creates a tenant whose quota is used up.
 * @returns its credentials
 */
export async function newExhaustedTenant(): Promise<CallOptions[]> {
  const tenant = await newWideTenant();
  const sql = database();
  await sql`update subscriptions set api_call_cap = 1 where company_id = ${tenant.companyId}`;
  await sql`update api_quota set calls = 1 where company_id = ${tenant.companyId}`;
  return [{ key: tenant.key }, { token: await newBearer(tenant) }];
}

const rounds = 3;

/**
 * Calls with all credentials concurrently.
 * @returns responses of the tenant other than 200, and of the others other than a rejection
 */
export async function callConcurrently(baseUrl: string, { own, others }: LoadCredentials): Promise<string[]> {
  const wrong: string[] = [];
  const ask = async (options: CallOptions, wanted: boolean): Promise<void> => {
    const { status, text } = await call('GET', '/v1/me', { ...options, baseUrl });
    if ((status === 200) !== wanted)
      wrong.push(`under load, ${wanted ? 'the tenant' : 'another tenant'} got ${status} ${text.slice(0, 200)}`);
  };
  for (let round = 0; round < rounds; round += 1)
    // Calls of others surround each of the tenant's, so that every lookup has some of both.
    await Promise.all(own.flatMap((options) => [...others.map((each) => ask(each, false)), ask(options, true)]));
  return wrong;
}
