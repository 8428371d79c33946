// The server's secret: from SECRET_KEY, or generated once and kept in the data folder.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../config.ts';

/**
 * Reads the secret, or generates it.
 * @returns 64 hexadecimal characters
 * @throws ConfigError if the file does not contain a secret. A shorter text would be a weak key
 */
export function readSecretKey(configured: string | undefined, dataDir: string): string {
  if (configured !== undefined) return configured;
  const file = join(dataDir, 'secret-key');
  mkdirSync(dataDir, { recursive: true });
  try {
    // If two servers start for the first time together, one wins and both use its secret.
    writeFileSync(file, randomBytes(32).toString('hex'), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const secret = readFileSync(file, 'utf8').trim();
  if (!/^[0-9a-f]{64}$/i.test(secret))
    throw new ConfigError(`${file} does not hold 64 hexadecimal characters. Restore it, or set SECRET_KEY.`);
  return secret;
}
