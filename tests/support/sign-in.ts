// Signs in as a tenant's administrator, over HTTP.
import { call } from './client.ts';
import { adminPassword, type Tenant } from './tenants.ts';

export interface SignedIn {
  access_token: string;
  refresh_token: string;
}

/** Signs in a tenant's administrator with a new session each time. */
export async function signIn(tenant: Tenant): Promise<SignedIn> {
  const { status, body, text } = await call('POST', '/auth/v1/token', {
    query: { grant_type: 'password' },
    body: { email: tenant.admin.email, password: adminPassword },
  });
  if (status !== 200) throw new Error(`the sign-in answered ${status}: ${text}`);
  return body;
}
