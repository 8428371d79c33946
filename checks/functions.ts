// Functions that V8 makes in its old generation, where they keep alive all that they refer to.
import type { Source } from './sources.ts';
import { readSyntax } from './syntax.ts';

/** Where a function may live as long as it likes: none of it is made for a request. */
const elsewhere = /^(tests|checks|bench|sdk|spec)\//;

/**
 * A sentence for every function that is written into a property where it is made. V8's parser takes it for a method that stays, and
 * makes it in the old generation: what it refers to survives each quick collection, a request's whole graph among it.
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
