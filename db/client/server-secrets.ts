// Keys of the server that all its processes share, encrypted with SECRET_KEY in the database.
import postgres from 'postgres';

/** Thrown when the database was set up under another SECRET_KEY. */
export class SecretKeyError extends Error {}

interface Sealing {
  encrypt(text: string): string;
  decrypt(sealed: string): string;
}

const signingKeyName = 'session_signing_key';

/** Parses one key, or several after a rotation. The first one signs. */
function parseKeys<Key>(text: string): readonly [Key, ...Key[]] {
  const kept = JSON.parse(text) as Key | [Key, ...Key[]];
  return Array.isArray(kept) ? (kept as [Key, ...Key[]]) : [kept];
}

/**
 * Changes the list of the server's signing keys.
 * @param url a user that owns the tables
 * @param change gets the keys and returns the new list
 */
export async function changeSigningKeys<Key>(
  url: string,
  sealing: Sealing,
  change: (keys: readonly [Key, ...Key[]]) => Promise<readonly [Key, ...Key[]]>,
): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, fetch_types: false });
  try {
    const [row] = await sql<{ sealed: string }[]>`select sealed from server_secrets where name = ${signingKeyName}`;
    if (!row) throw new Error('There is no signing key yet. The first start of the server creates it.');
    const kept = await change(parseKeys<Key>(sealing.decrypt(row.sealed)));
    const sealed = sealing.encrypt(JSON.stringify(kept));
    const changed = await sql`
      update server_secrets set sealed = ${sealed} where name = ${signingKeyName} and sealed = ${row.sealed}`;
    if (changed.count === 0) throw new Error('Another process changed the keys at the same time.');
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/**
 * Reads the server's keys, and creates them on the first start.
 * @param url a user that owns the tables
 * @throws SecretKeyError if they cannot be decrypted
 */
export async function openServerSecrets<Key>(
  url: string,
  sealing: Sealing,
  make: { newSigningKey: (keyId: string) => Promise<Key> },
): Promise<{ signingKeys: readonly [Key, ...Key[]] }> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined, fetch_types: false });
  try {
    const find = () => sql<{ sealed: string }[]>`select sealed from server_secrets where name = ${signingKeyName}`;
    let [row] = await find();
    if (!row) {
      const made = sealing.encrypt(JSON.stringify(await make.newSigningKey(`session-${Date.now()}`)));
      // Of two first starts at the same time, one wins and both use its key.
      await sql`insert into server_secrets (name, sealed) values (${signingKeyName}, ${made}) on conflict do nothing`;
      [row] = await find();
    }
    return { signingKeys: parseKeys<Key>(sealing.decrypt(row?.sealed ?? '')) };
  } catch (error) {
    if (
      (error as { code?: string }).code?.startsWith('ERR_') ||
      (error as Error).message.includes('unable to authenticate data')
    ) {
      throw new SecretKeyError(
        'SECRET_KEY differs from the key that this database was set up with. Set SECRET_KEY to the original key.',
      );
    }
    throw error;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
