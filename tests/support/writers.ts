// Clients that write continuously while servers come and go, and record acknowledged writes.
import { randomUUID } from 'node:crypto';
import { database, type Tenant } from './tenants.ts';

/**
 * The results of a client that writes continuously, and moves to the other server if one does not
 * accept its call.
 */
export interface Client {
  /** Acknowledged names. */
  written: string[];
  moved: number;
  /** Responses other than success, and broken ones. */
  failures: string[];
}

/** Creates accounts in sequence, each with an Idempotency-Key of its name. */
export async function keepWriting(key: string, servers: readonly string[], until: () => boolean): Promise<Client> {
  const client: Client = { written: [], moved: 0, failures: [] };
  let at = 0;
  while (!until()) {
    const name = randomUUID();
    while (!(await write(name))) at = (at + 1) % servers.length;
  }
  return client;

  /**
   * Sends one call. The same key makes a retry safe.
   * @returns false if the server did not accept it
   */
  async function write(name: string): Promise<boolean> {
    try {
      const response = await fetch(`${servers[at]}/v1/objects/accounts/records`, {
        method: 'POST',
        headers: { 'x-api-key': key, 'content-type': 'application/json', 'idempotency-key': name },
        body: JSON.stringify({ name }),
      });
      const text = await response.text();
      // The broken call may still run, so it is retried.
      if (response.status === 409 && text.includes('IDEMPOTENCY_IN_PROGRESS')) return false;
      if (response.status === 201) client.written.push(name);
      else client.failures.push(`${response.status} ${text}`);
      return true;
    } catch (error) {
      const { code, message } = ((error as Error).cause ?? error) as { code?: string; message: string };
      // Rejected, or closed before a response began: retried on the other server.
      const notTaken = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(code ?? '');
      if (!notTaken) client.failures.push(`${code} ${message}`);
      client.moved += 1;
      return !notTaken;
    }
  }
}

/** Returns the stored names, sorted. */
export async function namesOfAccounts({ companyId }: Tenant): Promise<string[]> {
  const stored = await database()<{ name: string }[]>`select name from accounts where company_id = ${companyId}`;
  return stored.map((row) => row.name).toSorted();
}
