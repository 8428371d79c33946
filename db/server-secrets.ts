// Keys of the server itself that all its processes share: in the database, sealed under SECRET_KEY.
import postgres from 'postgres';

/** Thrown when the database was set up under another SECRET_KEY. */
export class SecretKeyError extends Error {}

interface Sealing {
  encrypt(text: string): string;
  decrypt(sealed: string): string;
}

/**
 * Reads the server's keys, and makes them on the first start.
 * @param url a user that owns the tables
 * @throws SecretKeyError when they cannot be opened
 */
export async function openServerSecrets<Key>(
  url: string,
  sealing: Sealing,
  make: { newSigningKey: (keyId: string) => Promise<Key> },
): Promise<{ signingKey: Key }> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, fetch_types: false });
  try {
    const name = 'session_signing_key';
    const find = () => sql<{ sealed: string }[]>`select sealed from server_secrets where name = ${name}`;
    let [row] = await find();
    if (!row) {
      const made = sealing.encrypt(JSON.stringify(await make.newSigningKey(`session-${Date.now()}`)));
      // Of two first starts at once, one wins and both use its key.
      await sql`insert into server_secrets (name, sealed) values (${name}, ${made}) on conflict do nothing`;
      [row] = await find();
    }
    return { signingKey: JSON.parse(sealing.decrypt(row?.sealed ?? '')) as Key };
  } catch (error) {
    if (
      (error as { code?: string }).code?.startsWith('ERR_') ||
      (error as Error).message.includes('unable to authenticate data')
    ) {
      throw new SecretKeyError(
        'SECRET_KEY is not the one that this database was set up with. Give the server the old key back.',
      );
    }
    throw error;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
