// Checks all statements that servers sent in a run: each binds its rows to a company and a mode.
import type { Sql } from 'postgres';
import ts from 'typescript';
import { type Catalogue, parseTrees, readBindings } from './bindings.ts';
import { acrossCompanies, places } from './distribution.ts';
import { tenantPredicates } from './predicates.ts';
import { databaseSources, functionAround, parseTree, sqlIn } from './sources.ts';

/**
 * Statements on a company's rows of both modes, by `file function`, each with its reason. The list
 * may only shrink.
 */
const inBothModes: Readonly<Record<string, string>> = {
  'db/settings/sla-policies.ts countOpenClocks':
    'a policy applies to both modes, so its open clocks of both are counted',
  'db/access/audit-logs.ts sweepOtherAuditLogs': 'deletes rows past their retention in both modes',
  'db/access/requests.ts sweepOtherRequests': 'deletes rows past their retention in both modes',
  'db/automation/webhook-sending.ts sweepDeliveries': 'deletes rows past their retention by id in both modes',
  'db/records/feed.ts findLastPositions': 'returns both feeds of a company to the dispatcher in one statement',
  'db/billing/purge.ts listCompanyFiles': 'removes a company with all its rows',
  'db/billing/purge.ts forgetFiles': 'removes a company with all its rows',
};

/**
 * Conditions that say more than whose a row is, by `file function: condition`, each with its
 * reason. The list may only shrink.
 */
const doubled: Readonly<Record<string, string>> = {
  'db/people/org-structure.ts findNode: id = ':
    'the company is a node itself: the requested id must equal the id of the calling company',
};

/** Functions whose statements no test sends, each with its reason. The list may only shrink. */
const neverSent: Readonly<Record<string, string>> = {
  'db/demo/': 'fills an embedded database before the server listens',
  'db/scheduling/calendar-orders.ts noteEventLink': 'no supported calendar provides links to its events',
};

/** The `file function` prefixes of the lists above. */
export const listedPlaces = [...Object.keys(inBothModes), ...Object.keys(doubled), ...Object.keys(neverSent)].map(
  (each) => each.split(':')[0] ?? each,
);

/** Reads the columns of all tables. */
export async function readCatalogue(sql: Sql): Promise<Catalogue> {
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

/** A SQL template in the source. */
interface Template {
  /** The file and the function. */
  place: string;
  /** Its place in the file. */
  from: number;
  to: number;
  /** Its constant parts in order, without the inserted values. */
  pieces: readonly string[];
}

const constant = String.raw`(?:'(?:[^']|'')*'|(?<![\w$"])\d+(?:\.\d+)?\b|\b(?:true|false|null)\b)(?:::\w+(?:\[\])?)?`;
/** PostgreSQL stores one text for a list of constants. */
const constants = new RegExp(`${constant}(?:\\s*,\\s*${constant})*`, 'gi');

/** Returns all SQL templates in db/. */
function templatesOfFiles(): Template[] {
  return databaseSources().flatMap(([file, source]) =>
    sqlIn(parseTree(file, source)).map((template) => {
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

/** Returns true if a statement was built from a template. */
function isBuiltFrom(text: string, { pieces }: Template): boolean {
  let from = 0;
  for (const piece of pieces) {
    const found = text.indexOf(piece, from);
    if (found < 0) return false;
    from = found + piece.length;
  }
  return true;
}

/**
 * Returns the sent statements' rows that are bound to no company or mode. Also returns unnecessary
 * conditions, because no test could detect their removal.
 */
export async function unboundIn(texts: readonly string[], catalogue: Catalogue): Promise<string[]> {
  const templates = templatesOfFiles();
  const problems = new Set<string>();
  for (const text of texts)
    for (const tree of await parseTrees(text)) {
      const { unbound, conditions } = readBindings(tree, catalogue);
      const place = findPlace(text, templates);
      const isListed = (wall: string): boolean =>
        Object.hasOwn(acrossCompanies, place) || (wall.endsWith(': mode') && Object.hasOwn(inBothModes, place));
      for (const wall of unbound)
        if (!isListed(wall)) problems.add(`${place}: nothing binds ${wall} in ${shortened(text)}`);
      for (const condition of conditions) {
        if (readBindings(tree, catalogue, condition).unbound.length > unbound.length) continue;
        const written = shortened(text.slice(findStart(condition)));
        if (Object.keys(doubled).some((each) => `${place}: ${written}`.startsWith(each))) continue;
        problems.add(`${place}: this condition is not needed: ${written}`);
      }
    }
  return [...problems].sort();
}

/** Returns the ids of conditions in db/ that no statement contains. */
export function findUnsent(texts: readonly string[]): string[] {
  const templates = templatesOfFiles();
  const sent = new Map<Template, boolean>();
  const isSent = (template: Template): boolean => {
    const known = sent.get(template) ?? texts.some((text) => isBuiltFrom(text, template));
    sent.set(template, known);
    return known;
  };
  return tenantPredicates()
    .filter(({ id }) => !Object.keys(neverSent).some((each) => id.startsWith(each)))
    .filter(({ file, from }) => {
      const around = templates.filter(
        (each) => each.place.startsWith(`${file} `) && each.from <= from && from < each.to,
      );
      // The innermost of nested templates.
      const [own] = around.sort((one, other) => one.to - one.from - (other.to - other.from));
      return !own || !isSent(own);
    })
    .map(({ id }) => id);
}

/** Returns the function that a statement comes from, as far as its text shows. */
function findPlace(text: string, templates: readonly Template[]): string {
  const measureLength = ({ pieces }: Template): number => pieces.join('').length;
  const found = templates
    .filter((each) => isBuiltFrom(text, each))
    .sort((one, other) => measureLength(other) - measureLength(one));
  return found[0]?.place ?? 'somewhere';
}

function findStart(condition: object): number {
  const places = [...JSON.stringify(condition).matchAll(/"location":(\d+)/g)].map(([, place]) => Number(place));
  return Math.min(...places);
}

const shortened = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, 120);
