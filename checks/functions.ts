// Finds functions that V8 allocates in its old generation, where they keep their closure alive.
import type { Source } from './sources.ts';
import { readSyntax } from './syntax.ts';

/** Folders whose code does not serve requests. */
const elsewhere = /^(tests|checks|bench|sdk|spec)\//;

/**
 * Returns a problem for every function expression that is assigned to a property. V8's parser
 * treats it as a long-lived method and allocates it in the old generation. Its closure then
 * survives every minor collection, including the whole object graph of a request.
 */
export function heldFunctionProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => path.endsWith('.ts') && !elsewhere.test(path))
    .flatMap((source) =>
      readSyntax(source).heldFunctions.map(
        (line) =>
          `${source.path}:${line} writes a function into a property: give it a name first (docs/decisions/runtime.md)`,
      ),
    );
}
