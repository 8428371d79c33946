// The requests that wait to be written to the request log, as bytes.
import type { LoggedRequest } from '../../domain/access/logged-requests.ts';
import {
  findShared,
  type RequestBlock,
  type Taken,
  toBlocks,
  type WaitingTenant,
} from '../../domain/access/request-blocks.ts';

const initialBytes = 262_144;
const initialCount = 4096;

/**
 * Requests that wait to be written, as bytes. Objects that live for a second cost the garbage
 * collector several times as much as everything else that the log does for a request.
 */
export class RequestQueue {
  #bytes = Buffer.alloc(initialBytes);
  #used = 0;
  /** For each request: the end of its bytes, the number of its tenant, and of what it shares. */
  #ends = new Uint32Array(initialCount);
  #tenantNumbers = new Uint32Array(initialCount);
  #sharedNumbers = new Uint32Array(initialCount);
  #tenants: WaitingTenant[] = [];
  /** The numbers of tenants by company, in live mode and in test mode. */
  #numbers: [Map<string, number>, Map<string, number>] = [new Map(), new Map()];
  #size = 0;

  /** The number of requests. */
  get size(): number {
    return this.#size;
  }

  add(request: LoggedRequest): void {
    const { id, path, durationMs, requestBody, error } = request;
    const index = this.#size;
    if (index === this.#ends.length) this.#growNumbers();
    const tenantNumber = this.#findTenant(request);
    const tenant = this.#tenants[tenantNumber] as WaitingTenant;
    this.#tenantNumbers[index] = tenantNumber;
    this.#sharedNumbers[index] = findShared(tenant, request);
    if (requestBody !== null || error !== null) tenant.details[id] = { requestBody, error };
    this.#write(`["${id}",${JSON.stringify(path)},${durationMs}`);
    this.#ends[index] = this.#used;
    this.#size += 1;
  }

  /**
   * Removes all requests and returns them as blocks. A request that took long began earlier than the
   * others, so it gets a block of its own: the times of a block are always close together.
   */
  take(): RequestBlock[] {
    const requests: Taken[][] = this.#tenants.map(() => []);
    let start = 0;
    for (let index = 0; index < this.#size; index += 1) {
      const end = this.#ends[index] as number;
      const text = this.#bytes.toString('utf8', start, end);
      const taken = { id: text.slice(2, 38), text, shared: this.#sharedNumbers[index] as number };
      requests[this.#tenantNumbers[index] as number]?.push(taken);
      start = end;
    }
    const blocks = this.#tenants.flatMap((tenant, number) => toBlocks(tenant, requests[number] as Taken[]));
    this.#used = 0;
    this.#size = 0;
    this.#tenants = [];
    this.#numbers = [new Map(), new Map()];
    return blocks;
  }

  #findTenant({ companyId, testMode }: LoggedRequest): number {
    const numbers = this.#numbers[testMode ? 1 : 0];
    const known = numbers.get(companyId);
    if (known !== undefined) return known;
    const number = this.#tenants.length;
    numbers.set(companyId, number);
    this.#tenants.push({ companyId, testMode, shared: new Map(), last: undefined, details: {} });
    return number;
  }

  #write(text: string): void {
    // A UTF-16 unit has at most three bytes in UTF-8.
    const needed = this.#used + text.length * 3;
    if (needed > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger);
      this.#bytes = larger;
    }
    this.#used += this.#bytes.write(text, this.#used);
  }

  #growNumbers(): void {
    const grow = (numbers: Uint32Array): Uint32Array<ArrayBuffer> => {
      const larger = new Uint32Array(numbers.length * 2);
      larger.set(numbers);
      return larger;
    };
    this.#ends = grow(this.#ends);
    this.#tenantNumbers = grow(this.#tenantNumbers);
    this.#sharedNumbers = grow(this.#sharedNumbers);
  }
}
