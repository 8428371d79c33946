// Seeds of random inputs: the same in each run, so that chance fails no run.

/** @param name of the variable that sets another seed; its value `random` draws one */
export function readSeed(name: string): number {
  const given = process.env[name];
  return given === 'random' ? Date.now() % 2 ** 31 : Number(given ?? 1);
}
