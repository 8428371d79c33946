// Loaded into a server first: changes the sources that it loads, as the file SOURCE_EDITS says.
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { SourceEdit } from './mutants.ts';

const edits = JSON.parse(readFileSync(process.env.SOURCE_EDITS ?? '', 'utf8')) as SourceEdit[];
const byUrl = Map.groupBy(edits, ({ file }) => new URL(`../../${file}`, import.meta.url).href);

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const own = byUrl.get(url);
    if (!own) return loaded;
    let source = readFileSync(fileURLToPath(url), 'utf8');
    // The last one first, so that the places of the others stay valid.
    for (const { from, to, text } of own.toSorted((one, other) => other.from - one.from))
      source = source.slice(0, from) + text + source.slice(to);
    return { ...loaded, source };
  },
});
