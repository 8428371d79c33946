// Finds all SQL conditions on a company or a mode, and builds sources without one of them.
import ts from 'typescript';
import { databaseSources, functionAround, parseTree, sqlIn } from './sources.ts';

export interface Predicate {
  /**
   * File, function, condition and its number among equal ones there. Stays the same if lines move.
   */
  id: string;
  file: string;
  line: number;
  /** Its place in the file. */
  from: number;
  to: number;
  /** The text that replaces it when it is removed. */
  without: string;
}

const operand = String.raw`(?:(?:"?\w+"?|§+)\.)?"?\w+"?|§+`;
const comparison = new RegExp(`(?<![\\w."§])(${operand})\\s*=\\s*(${operand})(?:::\\w+)?`, 'g');
const bare = /(?<=\b(?:and|or|where|on|not)\s+)(?:\w+\.)?test_mode\b(?=\s*(?:and\b|or\b|\)|$|\n))/g;
/**
 * Rows by their whole key, `(company_id, id) in (select company_id, id ...)`. One column less on
 * both sides removes a condition.
 */
const rowKey = /\((company_id, (?:test_mode, )?)(\w+)\) in \(\s*select \1\2 from\b/g;
/** Companies that a statement over all companies leaves out. */
const leftOut = /\bcompany_id <> all\(/g;
/** The position at which a scan over all companies continues, in the order of a key. */
const seek = /\(company_id, test_mode\) > \(|\bcompany_id > §+/g;
const tenantColumn = /(?:^|\.)"?(?:company_id|test_mode)"?$/;
const tenantValue = /companyId|company\.id|company_id|testMode|test_mode/;
/** Conditions of another form. Teach this file to handle them. */
const unknown =
  /\b(?:company_id|test_mode)"?\)?\s*(?:<>|!=|<|>|is\b|in\b|not\b|between\b|like\b)|[<>!]=?\s*(?:\w+\.)?(?:company_id|test_mode)\b|\(\s*(?:\w+\.)?company_id\s*,[^)]*\)\s*(?:=|in\b)/;

/**
 * Returns all conditions in the order of the files.
 * @throws Error for a condition of an unknown form
 */
export function tenantPredicates(): Predicate[] {
  return databaseSources().flatMap(([file, source]) => findPredicates(file, source));
}

function findPredicates(file: string, source: string): Predicate[] {
  const tree = parseTree(file, source);
  const found: Predicate[] = [];
  for (const template of sqlIn(tree)) {
    const start = template.getStart() + 1;
    const text = masked(source, template, start);
    if (unknown.test(text.replaceAll(rowKey, '').replaceAll(leftOut, '').replaceAll(seek, '')))
      throw new Error(`${file}: a condition of an unknown kind in ${text.trim().slice(0, 300)}`);
    for (const { from, to, without } of conditionsIn(text, source.slice(start))) {
      const condition = source.slice(start + from, start + to).replace(/\s+/g, ' ');
      const id = `${file} ${functionAround(template)}: ${condition}`;
      const before = found.filter((each) => each.id === id || each.id.startsWith(`${id} #`)).length;
      found.push({
        id: before === 0 ? id : `${id} #${before + 1}`,
        file,
        line: tree.getLineAndCharacterOfPosition(start + from).line + 1,
        from: start + from,
        to: start + to,
        without,
      });
    }
  }
  return found;
}

/** Returns the text of a template with its values masked, every character in its place. */
function masked(source: string, template: ts.TemplateLiteral, start: number): string {
  let text = source.slice(start, template.getEnd() - 1);
  if (!ts.isTemplateExpression(template)) return text;
  for (const { expression } of template.templateSpans) {
    const from = expression.getFullStart() - 2 - start;
    const to = source.indexOf('}', expression.getEnd()) + 1 - start;
    text = text.slice(0, from) + '§'.repeat(to - from) + text.slice(to);
  }
  return text;
}

type Condition = Pick<Predicate, 'from' | 'to' | 'without'>;

function conditionsIn(text: string, source: string): Condition[] {
  const conditions: Condition[] = [];
  for (const match of text.matchAll(comparison)) {
    const [whole, left = '', right = ''] = match;
    const from = match.index;
    const value = right.startsWith('§') ? source.slice(from, from + whole.length) : '';
    if (tenantColumn.test(left) || tenantColumn.test(right) || tenantValue.test(value))
      conditions.push({ from, to: from + whole.length, without: 'true' });
  }
  for (const match of text.matchAll(bare))
    conditions.push({ from: match.index, to: match.index + match[0].length, without: 'true' });
  for (const match of text.matchAll(rowKey))
    for (const [column] of match[1]?.matchAll(/\w+, /g) ?? [])
      conditions.push({
        from: match.index,
        to: match.index + match[0].length,
        without: match[0].replaceAll(column, ''),
      });
  return conditions.sort((a, b) => a.from - b.from);
}
