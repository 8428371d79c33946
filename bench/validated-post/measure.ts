// P1: the runtime alone, against Fastify with the same schemas and against bare node:http.
import { request } from '../load.ts';
import type { Result } from '../report.ts';
import { type Measured, measure, ratio, type Settings } from '../rounds.ts';
import { startScript } from '../sides.ts';
import { leadBody } from './lead.ts';

export async function validatedPost(settings: Settings): Promise<Result> {
  const sides = [];
  for (const name of ['ours', 'fastify', 'bare']) sides.push(await startScript(name, `validated-post/${name}.ts`));
  try {
    const bytes = request('POST', '/v1/leads', {}, JSON.stringify(leadBody));
    const measured = await measure(sides, () => () => bytes, settings);
    const [ours, fastify, bare] = measured as [Measured, Measured, Measured];
    return {
      name: 'validated-post',
      figure: 'P1',
      what: 'validated POST, no database: the runtime, Fastify with the same schemas, bare node:http',
      settings: { ...settings },
      sides: measured,
      ratios: [ratio(ours, fastify, 1), ratio(ours, bare, 0.85)],
      values: [],
    };
  } finally {
    for (const side of sides) await side.stop();
  }
}
