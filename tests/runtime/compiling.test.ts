// Stopping JIT compilation before the server exits.
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

const module = new URL('../../app/compiling.ts', import.meta.url).href;
/** Returns how many of fifty hot functions V8 compiles. */
const compiledAfter = (first: string): number => {
  const script = `
    import { stopCompiling } from ${JSON.stringify(module)};
    ${first};
    for (let made = 0; made < 50; made += 1) {
      const often = new Function('count', 'let sum = ' + made + '; for (let at = 0; at < count; at += 1) sum += at; return sum');
      for (let call = 0; call < 2000; call += 1) often(200);
    }`;
  const flags = ['--trace-opt', '--disable-warning=ExperimentalWarning', '--input-type=module'];
  const output = execFileSync(process.execPath, [...flags, '-e', script], { encoding: 'utf8' });
  return output.match(/completed optimizing/g)?.length ?? 0;
};

test('V8 compiles no function after stopCompiling', () => {
  expect(compiledAfter('')).toBeGreaterThan(10);
  expect(compiledAfter('stopCompiling()')).toBe(0);
});
