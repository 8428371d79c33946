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

export interface NamedFunction {
  name: string;
  /** True if another file can import it. */
  exported: boolean;
  /** The return type as written, or the expression of an arrow function without one. */
  returns: string;
  line: number;
}

export interface Syntax {
  imports: Import[];
  uses: Use[];
  /** Functions with a name, including methods, and parameters and properties of a function type. */
  functions: NamedFunction[];
  /** Lines in which a function expression is assigned to a property. */
  heldFunctions: number[];
}

/** Returns all imports, and all expressions that rules can name. */
export function readSyntax({ path, text }: Source): Syntax {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const uses: Use[] = [];
  const functions: NamedFunction[] = [];
  const heldFunctions: number[] = [];
  const visit = (node: ts.Node): void => {
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    const imported = readImport(node);
    if (imported) imports.push({ ...imported, line });
    const expression = readExpression(node);
    if (expression !== undefined) uses.push({ expression, line });
    const named = readFunction(node);
    if (named) functions.push(named);
    if (isHeldFunction(node)) heldFunctions.push(line);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return { imports, uses, functions, heldFunctions };
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

function readFunction(node: ts.Node): NamedFunction | undefined {
  const signature = findSignature(node);
  const { name } = node as ts.NamedDeclaration;
  if (!signature || !name || !(ts.isIdentifier(name) || ts.isPrivateIdentifier(name))) return undefined;
  const statement = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : [];
  const result = signature.type ?? (ts.isArrowFunction(signature) ? signature.body : undefined);
  return {
    name: name.text.replace('#', ''),
    exported: modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword),
    returns: result?.getText() ?? '',
    line: name.getSourceFile().getLineAndCharacterOfPosition(name.getStart()).line + 1,
  };
}

/** Returns the function that a declaration names, or its function type. */
function findSignature(node: ts.Node): ts.SignatureDeclaration | undefined {
  if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isMethodSignature(node)) return node;
  const { type, initializer } = node as { type?: ts.Node; initializer?: ts.Expression };
  if (!ts.isVariableDeclaration(node) && !ts.isPropertyAssignment(node) && !isTypedName(node)) return undefined;
  const value = initializer && bare(initializer);
  if (value && (ts.isArrowFunction(value) || ts.isFunctionExpression(value))) return value;
  return type && ts.isFunctionTypeNode(type) ? type : undefined;
}

const isTypedName = (node: ts.Node): boolean =>
  ts.isParameter(node) || ts.isPropertySignature(node) || ts.isPropertyDeclaration(node);

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
