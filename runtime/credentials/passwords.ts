// Hashes passwords with scrypt, verifies and generates them.
// The cost is from OWASP's password storage guide (N=2^15, r=8, p=3).
import { randomBytes, randomInt, scrypt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Semaphore } from '../limits/semaphore.ts';

const cost = { N: 2 ** 15, r: 8, p: 3, maxmem: 64 * 1024 * 1024 };

/**
 * Maximum number of parallel derivations. They share libuv's four threads with the signatures of
 * tokens, which must not wait behind them.
 */
export const maxParallelHashes = Math.min(3, availableParallelism());
const semaphore = new Semaphore(maxParallelHashes);

function derive(password: string, salt: Buffer, options = cost): Promise<Buffer> {
  return semaphore.run(
    () =>
      new Promise((resolve, reject) => {
        scrypt(password.normalize('NFKC'), salt, 32, options, (error, key) => (error ? reject(error) : resolve(key)));
      }),
  );
}

/** Hashes a password. The result contains salt and cost, so that the cost can rise later. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const key = await derive(password, salt);
  return `scrypt$${cost.N}$${cost.r}$${cost.p}$${salt.toString('base64')}$${key.toString('base64')}`;
}

/**
 * Returns true if a password matches its hash.
 * @param stored null does the same work and returns false, so that an unknown address takes as long
 * as a wrong password
 */
export async function checkPassword(password: string, stored: string | null): Promise<boolean> {
  const [, N, r, p, salt, key] = (stored ?? `scrypt$${cost.N}$${cost.r}$${cost.p}$AAAAAAAAAAAAAAAAAAAAAA==$`).split(
    '$',
  );
  const wanted = Buffer.from(key ?? '', 'base64');
  const found = await derive(password, Buffer.from(salt ?? '', 'base64'), {
    ...cost,
    N: Number(N),
    r: Number(r),
    p: Number(p),
  });
  return stored !== null && found.length === wanted.length && timingSafeEqual(found, wanted);
}

const classes = ['ABCDEFGHJKLMNPQRSTUVWXYZ', 'abcdefghijkmnpqrstuvwxyz', '23456789', '!#$%*+-=?@'] as const;

/**
 * Returns a password of 16 characters with at least one of each class, without look-alike
 * characters.
 */
export function generatePassword(): string {
  const every = classes.join('');
  const characters = classes.map((each) => each[randomInt(each.length)] as string);
  while (characters.length < 16) characters.push(every[randomInt(every.length)] as string);
  for (let index = characters.length - 1; index > 0; index -= 1) {
    const other = randomInt(index + 1);
    [characters[index], characters[other]] = [characters[other] as string, characters[index] as string];
  }
  return characters.join('');
}
