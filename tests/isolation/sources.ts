// The SQL in the sources of db/: its templates, and the functions that they are in.
import { readdirSync, readFileSync } from 'node:fs';
import ts from 'typescript';

const folder = new URL('../../db/', import.meta.url);

/** All files of db/, in their order, with what is in them. */
export function databaseSources(): [file: string, text: string][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .map((name) => [`db/${name}`, readFileSync(new URL(name, folder), 'utf8')]);
}

export const treeOf = (file: string, text: string): ts.SourceFile =>
  ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);

/** The tagged templates below a node, the outer ones before those in them. */
export const templatesIn = (node: ts.Node): ts.TaggedTemplateExpression[] =>
  nodesIn(node, ts.isTaggedTemplateExpression);

const condition = /(?<!app\.)\b(?:company_id|test_mode)\s*=/;

/** What of the sources is SQL, below a node: the tagged templates, and the texts with a condition on a company or a mode. */
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

/** The name of the function, method or constant of the file that a node is in. */
export function functionAround(node: ts.Node): string {
  for (let each: ts.Node | undefined = node; each; each = each.parent) {
    if ((ts.isFunctionDeclaration(each) || ts.isMethodDeclaration(each)) && each.name) return each.name.getText();
    if (ts.isVariableDeclaration(each) && ts.isSourceFile(each.parent.parent.parent)) return each.name.getText();
  }
  return 'the file';
}
