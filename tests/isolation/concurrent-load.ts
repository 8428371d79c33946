// Many calls at once, of the tenant and of others: shared look-ups must not mix them up.
import { newBearer } from '../support/access-tokens.ts';
import { type CallOptions, call } from '../support/client.ts';
import { newWideTenant } from '../support/requests.ts';
import { database } from '../support/tenants.ts';

/** Credentials. */
export interface Rush {
  own: CallOptions[];
  others: CallOptions[];
}

/** A neighbour that has no calls left. @returns its credentials */
export async function newPauper(): Promise<CallOptions[]> {
  const tenant = await newWideTenant();
  const sql = database();
  await sql`update subscriptions set api_call_cap = 1 where company_id = ${tenant.companyId}`;
  await sql`update api_quota set calls = 1 where company_id = ${tenant.companyId}`;
  return [{ key: tenant.key }, { token: await newBearer(tenant) }];
}

const rounds = 3;

/** Calls with all credentials at once. @returns what the tenant was told instead of what it asked for, and neighbours instead of a refusal */
export async function rushTo(baseUrl: string, { own, others }: Rush): Promise<string[]> {
  const wrong: string[] = [];
  const ask = async (options: CallOptions, wanted: boolean): Promise<void> => {
    const { status, text } = await call('GET', '/v1/me', { ...options, baseUrl });
    if ((status === 200) !== wanted)
      wrong.push(`in a rush, ${wanted ? 'the tenant' : 'a neighbour'} is told ${status} ${text.slice(0, 200)}`);
  };
  for (let round = 0; round < rounds; round += 1)
    // Neighbours between all of the tenant's, so that every look-up has some of both.
    await Promise.all(own.flatMap((options) => [...others.map((each) => ask(each, false)), ask(options, true)]));
  return wrong;
}
