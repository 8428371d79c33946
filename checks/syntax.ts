// Reads the imports and expressions of a file from its syntax tree.
import ts from 'typescript';
import type { Source } from './sources.ts';

export interface Import {
  /** As written; empty if it is computed. */
  name: string;
  /** True if the import is erased at compile time. */
  typesOnly: boolean;
  line: number;
}

interface Use {
  /** Normalized: process.env, randomUUID, new Date(). */
  expression: string;
  line: number;
}

export interface Syntax {
  imports: Import[];
  uses: Use[];
  /** Lines in which a function expression is assigned to a property. */
  heldFunctions: number[];
}

/** Returns all imports, and all expressions that rules can name. */
export function readSyntax({ path, text }: Source): Syntax {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const uses: Use[] = [];
  const heldFunctions: number[] = [];
  const visit = (node: ts.Node): void => {
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    const imported = readImport(node);
    if (imported) imports.push({ ...imported, line });
    const expression = readExpression(node);
    if (expression !== undefined) uses.push({ expression, line });
    if (isHeldFunction(node)) heldFunctions.push(line);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return { imports, uses, heldFunctions };
}

function readImport(node: ts.Node): Omit<Import, 'line'> | undefined {
  if ((ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) && node.moduleSpecifier)
    return { name: readText(node.moduleSpecifier), typesOnly: isTypesOnly(node) };
  if (ts.isImportTypeNode(node))
    return { name: ts.isLiteralTypeNode(node.argument) ? readText(node.argument.literal) : '', typesOnly: true };
  const loads =
    ts.isCallExpression(node) &&
    (node.expression.kind === ts.SyntaxKind.ImportKeyword || node.expression.getText() === 'require');
  return loads ? { name: readText(node.arguments[0]), typesOnly: false } : undefined;
}

const readText = (node: ts.Node | undefined): string => (node && ts.isStringLiteralLike(node) ? node.text : '');

function isTypesOnly(node: ts.ImportDeclaration | ts.ExportDeclaration): boolean {
  if (ts.isExportDeclaration(node)) return node.isTypeOnly;
  const clause = node.importClause;
  if (!clause || clause.isTypeOnly) return clause !== undefined;
  const names = clause.namedBindings;
  return !clause.name && !!names && ts.isNamedImports(names) && names.elements.every((element) => element.isTypeOnly);
}

function readExpression(node: ts.Node): string | undefined {
  if (ts.isPropertyAccessExpression(node)) return node.getText();
  if (ts.isNewExpression(node) && !node.arguments?.length) return `new ${node.expression.getText()}()`;
  if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) return `${node.expression.text}()`;
  return undefined;
}

function isHeldFunction(node: ts.Node): boolean {
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.EqualsToken) return false;
  if (!ts.isPropertyAccessExpression(node.left) && !ts.isElementAccessExpression(node.left)) return false;
  const value = bare(node.right);
  return ts.isArrowFunction(value) || ts.isFunctionExpression(value);
}

/** Strips parentheses and type assertions. */
function bare(node: ts.Expression): ts.Expression {
  return ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
    ? bare(node.expression)
    : node;
}
