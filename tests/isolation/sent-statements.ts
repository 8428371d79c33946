// All statements that servers sent in a run: each binds its rows to a company and a mode.
import type { Sql } from 'postgres';
import ts from 'typescript';
import { bindingsOf, type Catalogue, treesOf } from './bindings.ts';
import { acrossCompanies, places } from './distribution.ts';
import { tenantPredicates } from './predicates.ts';
import { databaseSources, functionAround, sqlIn, treeOf } from './sources.ts';

/** Statements about rows of a company in both modes, by `file function`, each with a reason. The list may only shrink. */
const inBothModes: Readonly<Record<string, string>> = {
  'db/settings/sla-policies.ts countOpenClocks': 'a policy is of both modes, and so it is said what it still has to do',
  'db/access/audit-logs.ts sweepOtherAuditLogs': 'removes what is past its time, whatever its mode',
  'db/automation/webhook-sending.ts sweepDeliveries': 'removes what is past its time by its ids, whatever its mode',
  'db/records/feed.ts findLastPositions': 'tells the dispatcher of both feeds of a company at once',
  'db/billing/purge.ts findFilesOf': 'removes a company with all that it has',
  'db/billing/purge.ts forgetFiles': 'removes a company with all that it has',
};

/** Conditions that say more than whose a row is, by `file function: condition`, each with a reason. The list may only shrink. */
const doubled: Readonly<Record<string, string>> = {
  'db/people/org-structure.ts findNode: id = ':
    'the company is itself a node: its id is asked for, and is to be the id of the company that asks',
};

/** Functions whose statements no test sends, each with a reason. The list may only shrink. */
const neverSent: Readonly<Record<string, string>> = {
  'db/demo/': 'fills a database of its own, before a server listens',
  'db/scheduling/calendar-orders.ts noteEventLink': 'of the calendars of today none tells where people see its events',
};

/** Beginnings of what the lists name, by `file function`. */
export const listedPlaces = [...Object.keys(inBothModes), ...Object.keys(doubled), ...Object.keys(neverSent)].map(
  (each) => each.split(':')[0] ?? each,
);

/** What the tables of a database say of themselves. */
export async function catalogueOf(sql: Sql): Promise<Catalogue> {
  const rows = await sql<{ name: string; columns: string[] }[]>`
    select c.relname as name, array_agg(a.attname::text) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')
    group by 1`;
  const isTenants = ({ name, columns }: (typeof rows)[number]): boolean =>
    !Object.hasOwn(places, name) && (name === 'companies' || columns.includes('company_id'));
  return {
    columns: new Map(rows.map(({ name, columns }) => [name, new Set(columns)])),
    tenants: new Map(
      rows.filter(isTenants).map(({ name, columns }) => [
        name,
        {
          company: name === 'companies' ? 'id' : 'company_id',
          mode: columns.includes('test_mode') ? 'test_mode' : undefined,
        },
      ]),
    ),
  };
}

/** A piece of SQL in the source. */
interface Template {
  /** The file and the function. */
  place: string;
  /** Where it is in the file. */
  from: number;
  to: number;
  /** What is there whatever is put into it, in this order. */
  pieces: readonly string[];
}

const constant = String.raw`(?:'(?:[^']|'')*'|(?<![\w$"])\d+(?:\.\d+)?\b|\b(?:true|false|null)\b)(?:::\w+(?:\[\])?)?`;
/** The database keeps one for a list of them. */
const constants = new RegExp(`${constant}(?:\\s*,\\s*${constant})*`, 'gi');

/** All pieces of SQL in db/. */
function templatesOfFiles(): Template[] {
  return databaseSources().flatMap(([file, source]) =>
    sqlIn(treeOf(file, source)).map((template) => {
      const texts = ts.isNoSubstitutionTemplateLiteral(template)
        ? [template.text]
        : [template.head.text, ...template.templateSpans.map(({ literal }) => literal.text)];
      const pieces = texts.flatMap((text) => text.split(constants)).map((text) => text.trim());
      return {
        place: `${file} ${functionAround(template)}`,
        from: template.getStart(),
        to: template.getEnd(),
        pieces: pieces.filter((text) => text !== ''),
      };
    }),
  );
}

/** Whether a statement was made of a piece. */
function isMadeOf(text: string, { pieces }: Template): boolean {
  let from = 0;
  for (const piece of pieces) {
    const found = text.indexOf(piece, from);
    if (found < 0) return false;
    from = found + piece.length;
  }
  return true;
}

/**
 * What of the statements that servers sent is bound to no company or no mode, by words; empty while all are.
 * A condition that a statement could do without is named too: nobody would notice if it went, or stood for something else.
 */
export async function unboundIn(texts: readonly string[], catalogue: Catalogue): Promise<string[]> {
  const templates = templatesOfFiles();
  const problems = new Set<string>();
  for (const text of texts)
    for (const tree of await treesOf(text)) {
      const { unbound, conditions } = bindingsOf(tree, catalogue);
      const place = placeOf(text, templates);
      const isListed = (wall: string): boolean =>
        Object.hasOwn(acrossCompanies, place) || (wall.endsWith(': mode') && Object.hasOwn(inBothModes, place));
      for (const wall of unbound)
        if (!isListed(wall)) problems.add(`${place}: nothing binds ${wall} in ${shortened(text)}`);
      for (const condition of conditions) {
        if (bindingsOf(tree, catalogue, condition).unbound.length > unbound.length) continue;
        const written = shortened(text.slice(startOf(condition)));
        if (Object.keys(doubled).some((each) => `${place}: ${written}`.startsWith(each))) continue;
        problems.add(`${place}: nobody notices if this is not there: ${written}`);
      }
    }
  return [...problems].sort();
}

/** Conditions on a company or a mode in db/ that are in none of the statements, by their ids. */
export function unsentOf(texts: readonly string[]): string[] {
  const templates = templatesOfFiles();
  const sent = new Map<Template, boolean>();
  const isSent = (template: Template): boolean => {
    const known = sent.get(template) ?? texts.some((text) => isMadeOf(text, template));
    sent.set(template, known);
    return known;
  };
  return tenantPredicates()
    .filter(({ id }) => !Object.keys(neverSent).some((each) => id.startsWith(each)))
    .filter(({ file, from }) => {
      const around = templates.filter(
        (each) => each.place.startsWith(`${file} `) && each.from <= from && from < each.to,
      );
      // Of one in another, the inner.
      const [own] = around.sort((one, other) => one.to - one.from - (other.to - other.from));
      return !own || !isSent(own);
    })
    .map(({ id }) => id);
}

/** The function that a statement is of, as far as its text tells. */
function placeOf(text: string, templates: readonly Template[]): string {
  const lengthOf = ({ pieces }: Template): number => pieces.join('').length;
  const found = templates.filter((each) => isMadeOf(text, each)).sort((one, other) => lengthOf(other) - lengthOf(one));
  return found[0]?.place ?? 'somewhere';
}

function startOf(condition: object): number {
  const places = [...JSON.stringify(condition).matchAll(/"location":(\d+)/g)].map(([, place]) => Number(place));
  return Math.min(...places);
}

const shortened = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, 120);
