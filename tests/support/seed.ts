// Seeds of random inputs, the same in each run, so that no run fails by chance.

/** @param name of the variable with another seed. Its value `random` draws one. */
export function readSeed(name: string): number {
  const given = process.env[name];
  return given === 'random' ? Date.now() % 2 ** 31 : Number(given ?? 1);
}
