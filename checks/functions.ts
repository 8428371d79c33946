// Functions that V8 makes in its old generation, where they keep alive all that they refer to.
import ts from 'typescript';
import type { Source } from './sources.ts';

/** Where a function may live as long as it likes: none of it is made for a request. */
const elsewhere = /^(tests|checks|bench|sdk|spec)\//;

/**
 * A sentence for every function that is written into a property where it is made. V8's parser takes it for a method that stays, and
 * makes it in the old generation: what it refers to survives each quick collection, a request's whole graph among it.
 */
export function heldFunctionProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => path.endsWith('.ts') && !elsewhere.test(path))
    .flatMap(({ path, text }) =>
      linesOfHeldFunctions(path, text).map(
        (line) => `${path}:${line} writes a function into a property: give it a name first (docs/decisions/runtime.md)`,
      ),
    );
}

function linesOfHeldFunctions(path: string, text: string): number[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const lines: number[] = [];
  const visit = (node: ts.Node): void => {
    if (isHeld(node)) lines.push(file.getLineAndCharacterOfPosition(node.getStart()).line + 1);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return lines;
}

function isHeld(node: ts.Node): boolean {
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.EqualsToken) return false;
  if (!ts.isPropertyAccessExpression(node.left) && !ts.isElementAccessExpression(node.left)) return false;
  const value = bare(node.right);
  return ts.isArrowFunction(value) || ts.isFunctionExpression(value);
}

/** Without what is gone when the program runs. */
function bare(node: ts.Expression): ts.Expression {
  return ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
    ? bare(node.expression)
    : node;
}
