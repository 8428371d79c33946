// Explains to the operator why the server, or one of its commands, cannot start.

import { MigrationError } from '../db/client/migrate.ts';
import { SecretKeyError } from '../db/client/server-secrets.ts';
import { ConfigError } from '../runtime/config.ts';
import { EmbeddedDatabaseError } from './embedded-postgres/database.ts';

/** By error code: of the system, the driver, or PostgreSQL. */
const sentences: Record<string, string> = {
  EADDRINUSE: 'The port is in use. Set PORT to a free port.',
  EADDRNOTAVAIL: 'This machine does not have the address in HOST. Set HOST to one of its addresses, or to 0.0.0.0.',
  ECONNREFUSED: 'The database at DATABASE_URL refuses connections. Start it, or correct DATABASE_URL.',
  ENOTFOUND: 'The host name in DATABASE_URL or HOST does not exist. Correct it.',
  EAI_AGAIN: 'The host name in DATABASE_URL or HOST cannot be resolved. Correct it, or fix DNS.',
  CONNECT_TIMEOUT: 'The database at DATABASE_URL does not respond. Correct the address, or fix the network.',
  ENOSPC: 'The disk is full. Free space, or set DATA_DIR to a folder on another disk.',
  '28P01': 'The database rejects the password in DATABASE_URL. Correct it.',
  '28000': 'The database rejects the user in DATABASE_URL. Correct it, or allow the user in pg_hba.conf.',
  '3D000': 'The database in DATABASE_URL does not exist. Create it, or correct its name.',
  '42501': 'The user in DATABASE_URL lacks privileges. Use a user that owns the database and has CREATEROLE.',
  '57P03': 'The database is still starting. Try again shortly.',
};

/** Error codes of a path that cannot be created or written. */
const unwritable = new Set(['EACCES', 'EPERM', 'EROFS']);

/** Returns a message for the operator; with a stack only if the cause is unknown. */
export function explainFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isForOperators = [ConfigError, EmbeddedDatabaseError, MigrationError, SecretKeyError].some(
    (type) => error instanceof type,
  );
  if (isForOperators) return error.message;
  const { code, path } = error as { code?: string; path?: string };
  if (unwritable.has(code ?? '') && path)
    return `The user of this process cannot write to ${path}. Set DATA_DIR to a writable folder.`;
  if ((code === 'EEXIST' || code === 'ENOTDIR') && path) return `${path} is not a folder. Set DATA_DIR to a folder.`;
  if (code === 'EACCES') return 'The user of this process cannot listen on this port. Set PORT to a port above 1023.';
  return sentences[code ?? ''] ?? error.stack ?? error.message;
}
