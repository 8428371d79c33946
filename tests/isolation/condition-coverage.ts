// Finds which requests of a walk send which condition: only they can detect its absence.
import { readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { dropDatabase, newDatabase } from '../support/databases.ts';
import { serve } from './databases.ts';
import { markAll } from './mutants.ts';
import type { Predicate } from './predicates.ts';
import type { Probe } from './probe.ts';
import { replay } from './replay.ts';
import { waitUntilStable } from './wait-until-stable.ts';

/** Indexes of requests by condition id. Empty for conditions that only jobs send. */
export type Coverage = ReadonlyMap<string, readonly number[]>;

let count = 0;

/** Sends a walk once with all conditions marked. */
export async function measureCoverage(
  template: string,
  probes: readonly Probe[],
  predicates: readonly Predicate[],
): Promise<Coverage> {
  count += 1;
  const reachedFile = resolve('.test-data', `reached-${process.pid}-${count}.json`);
  const url = await newDatabase(template);
  try {
    const server = await serve(url, { edits: markAll(predicates), reachedFile });
    try {
      await replay(server.url, probes.map(named), () => waitUntilStable(url));
    } finally {
      await server.stop();
    }
    const sent = Object.entries(JSON.parse(readFileSync(reachedFile, 'utf8')) as Record<string, number[]>);
    return new Map(
      predicates.flatMap(({ id }, place) => {
        const requests = sent.filter(([, places]) => places.includes(place)).map(([name]) => name);
        return requests.length === 0 ? [] : [[id, requests.filter((name) => name !== '').map(Number)]];
      }),
    );
  } finally {
    await dropDatabase(url);
    rmSync(reachedFile, { force: true });
  }
}

const named = (probe: Probe, index: number): Probe => ({
  ...probe,
  options: { ...probe.options, headers: { ...probe.options.headers, 'x-probe': String(index) } },
});

/** Returns evenly spread items, including the first and the last. */
export function spread<Item>(items: readonly Item[], most: number): Item[] {
  const step = Math.max(1, (items.length - 1) / (most - 1));
  return items.filter((_, index) => Math.round(Math.round(index / step) * step) === index);
}

/** Returns a few requests of each operation and credential, evenly spread. */
export function sampleProbes(probes: readonly Probe[]): Probe[] {
  const alike = Map.groupBy(probes, ({ operation, options: { key, token }, isAgain }) =>
    [operation.id, key ?? token, isAgain].join(),
  );
  const some = new Set([...alike.values()].flatMap((own) => spread(own, 3)));
  return probes.filter((probe) => some.has(probe));
}
