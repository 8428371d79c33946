// The server's one secret: from SECRET_KEY, or made once and kept in the data folder.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../config.ts';

/**
 * Reads the secret.
 * @returns 64 hexadecimal characters
 * @throws ConfigError when the file does not hold a secret: a shorter one would pass for a key and protect nothing
 */
export function readSecretKey(configured: string | undefined, dataDir: string): string {
  if (configured !== undefined) return configured;
  const file = join(dataDir, 'secret-key');
  mkdirSync(dataDir, { recursive: true });
  try {
    // Of two first starts at once, one wins and both use its secret.
    writeFileSync(file, randomBytes(32).toString('hex'), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const secret = readFileSync(file, 'utf8').trim();
  if (!/^[0-9a-f]{64}$/i.test(secret))
    throw new ConfigError(`${file} does not hold 64 hexadecimal characters. Restore it, or set SECRET_KEY.`);
  return secret;
}
