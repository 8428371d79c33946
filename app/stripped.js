// Gives node the files of a server as cli/strip.ts has left them: `node --import`.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const root = new URL('../', import.meta.url).href;
const folder = new URL('node_modules/.cache/stripped/', root);

registerHooks({
  load(url, context, next) {
    const source = url.startsWith(root) && url.endsWith('.ts') ? strippedOf(readFileSync(new URL(url))) : undefined;
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
  },
});

/**
 * By the digest of the source, so that nothing is taken for what it was before a change.
 * @returns undefined for what was not stripped: node does it then
 */
function strippedOf(source) {
  try {
    return readFileSync(new URL(`${hash('sha256', source)}.js`, folder));
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
