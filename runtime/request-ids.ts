// Ids of requests: each tells its time, by which the audit log finds what the request did.
import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const size = 16;
/** Asked of the system for many ids at once: for each alone it takes a fiftieth of a read. */
const random = Buffer.alloc(256 * size);
let used = random.length;

/** A new id; ids of the same millisecond come in any order. */
export function newRequestId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += size;
  return v7({ random: random.subarray(used - size, used) });
}
