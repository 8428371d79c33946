// Loaded into a server first: makes hashing a password as cheap as other calls.
import crypto, { type scrypt as Scrypt } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/** The minimum cost, regardless of the cost in a hash. */
const cost = { N: 2, r: 1, p: 1 };

const { scrypt } = crypto;
crypto.scrypt = ((...[password, salt, length, , done]: Parameters<typeof Scrypt>) =>
  scrypt(password, salt, length, cost, done)) as typeof Scrypt;
// For modules that import it by name.
syncBuiltinESMExports();
