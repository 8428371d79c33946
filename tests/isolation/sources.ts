// The SQL templates in db/, and the functions that contain them.
import { readdirSync, readFileSync } from 'node:fs';
import ts from 'typescript';

const folder = new URL('../../db/', import.meta.url);

/** Returns all files of db/ in order, with their texts. */
export function databaseSources(): [file: string, text: string][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .map((name) => [`db/${name}`, readFileSync(new URL(name, folder), 'utf8')]);
}

export const parseTree = (file: string, text: string): ts.SourceFile =>
  ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);

/** Returns the tagged templates below a node, outer ones first. */
export const templatesIn = (node: ts.Node): ts.TaggedTemplateExpression[] =>
  nodesIn(node, ts.isTaggedTemplateExpression);

const condition = /(?<!app\.)\b(?:company_id|test_mode)\s*=/;

/**
 * Returns the SQL below a node: tagged templates, and texts with a condition on a company or a
 * mode.
 */
export const sqlIn = (node: ts.Node): ts.TemplateLiteral[] =>
  nodesIn(node, ts.isTemplateLiteral).filter(
    (each) => ts.isTaggedTemplateExpression(each.parent) || condition.test(each.getText()),
  );

function nodesIn<Wanted extends ts.Node>(node: ts.Node, isWanted: (each: ts.Node) => each is Wanted): Wanted[] {
  const found: Wanted[] = [];
  const visit = (each: ts.Node): void => {
    if (isWanted(each)) found.push(each);
    ts.forEachChild(each, visit);
  };
  visit(node);
  return found;
}

/** Returns the name of the function, method or constant that contains a node. */
export function functionAround(node: ts.Node): string {
  for (let each: ts.Node | undefined = node; each; each = each.parent) {
    if ((ts.isFunctionDeclaration(each) || ts.isMethodDeclaration(each)) && each.name) return each.name.getText();
    if (ts.isVariableDeclaration(each) && ts.isSourceFile(each.parent.parent.parent)) return each.name.getText();
  }
  return 'the file';
}
