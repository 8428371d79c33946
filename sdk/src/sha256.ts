// SHA-256 of a stream, part by part: WebCrypto only hashes what is in memory as a whole.

/** Returns the first 32 bits of the fractional parts of a root of a prime. */
const fraction = (prime: number, root: 2 | 3): number => {
  const value = root === 2 ? Math.sqrt(prime) : Math.cbrt(prime);
  return ((value - Math.floor(value)) * 0x1_0000_0000) | 0;
};

function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let candidate = 2; primes.length < count; candidate += 1)
    if (primes.every((prime) => candidate % prime !== 0)) primes.push(candidate);
  return primes;
}

const primes = firstPrimes(64);
const constants = Int32Array.from(primes, (prime) => fraction(prime, 3));

export class Sha256 {
  readonly #state = Int32Array.from(primes.slice(0, 8), (prime) => fraction(prime, 2));
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(64);
  /** Bytes of the block that are filled. */
  #filled = 0;
  #total = 0;

  update(bytes: Uint8Array): void {
    this.#total += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const taken = Math.min(64 - this.#filled, bytes.length - at);
      this.#block.set(bytes.subarray(at, at + taken), this.#filled);
      this.#filled += taken;
      at += taken;
      if (this.#filled === 64) this.#compress();
    }
  }

  /** Returns the digest in hexadecimal. Nothing can be added afterwards. */
  digest(): string {
    const bits = this.#total * 8;
    const padding = new Uint8Array((this.#filled < 56 ? 56 : 120) - this.#filled + 8);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 0x1_0000_0000));
    view.setUint32(padding.length - 4, bits % 0x1_0000_0000);
    this.update(padding);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #compress(): void {
    const words = this.#words;
    const view = new DataView(this.#block.buffer);
    for (let index = 0; index < 16; index += 1) words[index] = view.getInt32(index * 4);
    for (let index = 16; index < 64; index += 1) {
      const [early, late] = [words[index - 15] as number, words[index - 2] as number];
      const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
      const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
      words[index] = ((words[index - 16] as number) + first + (words[index - 7] as number) + second) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.#state as unknown as [...Eight];
    for (let index = 0; index < 64; index += 1) {
      const sum = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const choice = (e & f) ^ (~e & g);
      const added = (h + sum + choice + (constants[index] as number) + (words[index] as number)) | 0;
      const other = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const majority = (a & b) ^ (a & c) ^ (b & c);
      h = g;
      g = f;
      f = e;
      e = (d + added) | 0;
      d = c;
      c = b;
      b = a;
      a = (added + other + majority) | 0;
    }
    for (const [index, word] of [a, b, c, d, e, f, g, h].entries())
      this.#state[index] = ((this.#state[index] as number) + word) | 0;
    this.#filled = 0;
  }
}

type Eight = [number, number, number, number, number, number, number, number];

const rotate = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));
