// What to tell an operator when the server, or a command beside it, cannot start.

import { MigrationError } from '../db/client/migrate.ts';
import { SecretKeyError } from '../db/client/server-secrets.ts';
import { ConfigError } from '../runtime/config.ts';
import { EmbeddedDatabaseError } from './embedded-postgres/database.ts';

/** By the code of the error: of the system, of the driver, or of PostgreSQL. */
const sentences: Record<string, string> = {
  EADDRINUSE: 'The port is taken: set PORT to a free one.',
  EADDRNOTAVAIL: 'This machine has no such address: set HOST to one of its own, or to 0.0.0.0.',
  ECONNREFUSED: 'No database answers at DATABASE_URL: start it, or mend the address.',
  ENOTFOUND: 'The host name in DATABASE_URL, or in HOST, is not known: mend it.',
  EAI_AGAIN: 'The host name in DATABASE_URL, or in HOST, cannot be looked up: mend it, or the name service.',
  CONNECT_TIMEOUT: 'The database at DATABASE_URL does not answer: mend the address, or the network on the way to it.',
  ENOSPC: 'The disk is full: free some space, or set DATA_DIR to a folder on another disk.',
  '28P01': 'The database refuses the password in DATABASE_URL: mend it.',
  '28000': 'The database refuses the user in DATABASE_URL: mend it, or let the user in.',
  '3D000': 'There is no such database: create it, or mend its name in DATABASE_URL.',
  '42501': 'The user in DATABASE_URL may not create what is needed: use one that owns the database and has CREATEROLE.',
  '57P03': 'The database is still starting: try again shortly.',
};

/** Codes of a path that cannot be made or written. */
const unwritable = new Set(['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR']);

/** A sentence for an operator; a stack only where the cause is unknown to us. */
export function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isForOperators = [ConfigError, EmbeddedDatabaseError, MigrationError, SecretKeyError].some(
    (type) => error instanceof type,
  );
  if (isForOperators) return error.message;
  const { code, path } = error as { code?: string; path?: string };
  if (unwritable.has(code ?? '') && path)
    return `This user may not write ${path}: set DATA_DIR to a folder that it may write.`;
  if ((code === 'EEXIST' || code === 'ENOTDIR') && path) return `${path} is not a folder: set DATA_DIR to one that is.`;
  if (code === 'EACCES') return 'This user may not listen on that port: set PORT to one above 1023.';
  return sentences[code ?? ''] ?? error.stack ?? error.message;
}
