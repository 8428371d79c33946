// Loaded into a server first: to hash a password costs it no more than another call.
import crypto, { type scrypt as Scrypt } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/** The least that there is, whatever cost a hash names. */
const cost = { N: 2, r: 1, p: 1 };

const { scrypt } = crypto;
crypto.scrypt = ((...[password, salt, length, , done]: Parameters<typeof Scrypt>) =>
  scrypt(password, salt, length, cost, done)) as typeof Scrypt;
// For those who import it by its name.
syncBuiltinESMExports();
