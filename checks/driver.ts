// Only one file may use the patched parts of postgres.js, so that both can be read side by side.
import ts from 'typescript';
import type { Source } from './sources.ts';

/** The only file that may use the options of the patch. It declares their types. */
const onlyUser = 'db/client/pipeline.ts';

/** Options of statements and clients that the patch reads. */
const patched = new Set(['pipelined', 'preamble', 'skipDescribe']);
const mention = new RegExp(`\\b(${[...patched].join('|')})\\b`);

/** Returns a sentence for every use of an option of the patch outside of its file. */
export function driverProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path, text }) => path.endsWith('.ts') && path !== onlyUser && mention.test(text))
    .flatMap(({ path, text }) => {
      const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
      return patchedUses(file).map(
        ({ name, line }) => `${path}:${line} must not use ${name} of the patched driver: ${onlyUser} offers it`,
      );
    });
}

function patchedUses(file: ts.SourceFile): { name: string; line: number }[] {
  const uses: { name: string; line: number }[] = [];
  const visit = (node: ts.Node): void => {
    const name = findPropertyName(node);
    if (name && patched.has(name.text))
      uses.push({ name: name.text, line: file.getLineAndCharacterOfPosition(name.getStart()).line + 1 });
    ts.forEachChild(node, visit);
  };
  visit(file);
  return uses;
}

/** Returns the name of a property that is read, written or declared. */
function findPropertyName(node: ts.Node): ts.Identifier | ts.StringLiteralLike | undefined {
  const name =
    ts.isPropertyAccessExpression(node) ||
    ts.isPropertyAssignment(node) ||
    ts.isShorthandPropertyAssignment(node) ||
    ts.isPropertySignature(node)
      ? node.name
      : ts.isElementAccessExpression(node)
        ? node.argumentExpression
        : undefined;
  return name && (ts.isIdentifier(name) || ts.isStringLiteralLike(name)) ? name : undefined;
}
