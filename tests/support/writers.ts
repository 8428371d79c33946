// Clients that write without a pause while servers come and go, and remember what was acknowledged.
import { randomUUID } from 'node:crypto';
import { database, type Tenant } from './tenants.ts';

/** What happened to one client that keeps writing, and goes to the other server when one does not take its call. */
export interface Client {
  /** Names that were acknowledged. */
  written: string[];
  moved: number;
  /** Answers that were no success, and answers that broke off. */
  failures: string[];
}

/** Creates accounts, one after the other, each with an Idempotency-Key of its own name. */
export async function keepWriting(key: string, servers: readonly string[], until: () => boolean): Promise<Client> {
  const client: Client = { written: [], moved: 0, failures: [] };
  let at = 0;
  while (!until()) {
    const name = randomUUID();
    while (!(await write(name))) at = (at + 1) % servers.length;
  }
  return client;

  /** One call; false when the server did not take it. The same key makes a second try safe. */
  async function write(name: string): Promise<boolean> {
    try {
      const response = await fetch(`${servers[at]}/v1/objects/accounts/records`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': name },
        body: JSON.stringify({ name }),
      });
      const text = await response.text();
      // The call that broke off may still run: it is asked about again.
      if (response.status === 409 && text.includes('IDEMPOTENCY_IN_PROGRESS')) return false;
      if (response.status === 201) client.written.push(name);
      else client.failures.push(`${response.status} ${text}`);
      return true;
    } catch (error) {
      const { code, message } = ((error as Error).cause ?? error) as { code?: string; message: string };
      // Refused, or closed before an answer began: the call is made again elsewhere.
      const notTaken = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code ?? '');
      if (!notTaken) client.failures.push(`${code} ${message}`);
      client.moved += 1;
      return !notTaken;
    }
  }
}

/** What is stored, sorted. */
export async function namesOfAccounts({ companyId }: Tenant): Promise<string[]> {
  const stored = await database()<{ name: string }[]>`select name from accounts where company_id = ${companyId}`;
  return stored.map((row) => row.name).toSorted();
}
