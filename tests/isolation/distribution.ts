// What a database spread over machines by company does not take.
// Rules for the tables, as the database describes them, and for the statements, as the source text has them.
import type { ISql } from 'postgres';
import ts from 'typescript';
import { databaseSources, functionAround, templatesIn, treeOf } from './sources.ts';

/** Tables that say where something is, with a reason; no rule for tenants' tables holds for them. The list may only shrink. */
export const places: Readonly<Record<string, string>> = {
  api_key_places:
    'a key names no company: its hash is unique in all of them; small enough to be copied to every machine',
  user_places:
    'an address or the user of an access token names no company: they are unique in all of them; copied likewise',
  provider_customer_places: 'an event of a payment provider names no company, but its customer; copied likewise',
};

/** What of the tables breaks a rule, by words; empty while all holds. */
export async function tableProblems(sql: ISql): Promise<string[]> {
  const keys = await uniqueKeys(sql);
  const references = await foreignKeys(sql);
  const tables = await tenantTables(sql);
  return [
    ...[...tables]
      .filter((table) => !keys.some((key) => key.table === table && key.isPrimary))
      .map((table) => `${table} has no primary key`),
    ...keys
      .filter(({ table, first }) => tables.has(table) && first !== companyColumn(table))
      .map(({ table, name }) => `${table}: ${name} does not begin with the company`),
    ...references.flatMap((reference) => referenceProblems(reference, tables)),
    ...circles(references),
  ];
}

const companyColumn = (table: string): string => (table === 'companies' ? 'id' : 'company_id');

async function tenantTables(sql: ISql): Promise<Set<string>> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and (c.relname = 'companies' or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'company_id' and not a.attisdropped))`;
  return new Set(rows.map(({ name }) => name).filter((name) => !Object.hasOwn(places, name)));
}

interface UniqueKey {
  table: string;
  name: string;
  isPrimary: boolean;
  /** Its first column, or expression. */
  first: string;
}

function uniqueKeys(sql: ISql): Promise<UniqueKey[]> {
  return sql<UniqueKey[]>`
    select i.indrelid::regclass::text as table, i.indexrelid::regclass::text as name, i.indisprimary as "isPrimary",
      pg_get_indexdef(i.indexrelid, 1, true) as first
    from pg_index i
    join pg_class c on c.oid = i.indrelid and c.relnamespace = 'public'::regnamespace and not c.relispartition
    where i.indisunique
    order by 1, 2`;
}

interface ForeignKey {
  name: string;
  from: string;
  to: string;
  /** Pairs of columns: here, there. */
  columns: [string, string][];
  empties: boolean;
}

function foreignKeys(sql: ISql): Promise<ForeignKey[]> {
  return sql<ForeignKey[]>`
    select k.conname as name, k.conrelid::regclass::text as from, k.confrelid::regclass::text as to,
      k.confdeltype in ('n', 'd') or k.confupdtype in ('n', 'd') as empties,
      (
        select json_agg(json_build_array(here.attname, there.attname))
        from unnest(k.conkey, k.confkey) pair (here, there)
        join pg_attribute here on here.attrelid = k.conrelid and here.attnum = pair.here
        join pg_attribute there on there.attrelid = k.confrelid and there.attnum = pair.there
      ) as columns
    from pg_constraint k
    where k.contype = 'f' and k.conparentid = 0 and k.connamespace = 'public'::regnamespace
    order by 1`;
}

function referenceProblems({ name, from, to, columns, empties }: ForeignKey, tables: ReadonlySet<string>): string[] {
  if (!tables.has(to)) return [];
  if (!tables.has(from)) return [`${from}: ${name} refers to rows of tenants from a table that is none of theirs`];
  const named = columns.some(([here, there]) => here === companyColumn(from) && there === companyColumn(to));
  return [
    ...(named ? [] : [`${from}: ${name} does not contain the company on both sides`]),
    ...(empties ? [`${from}: ${name} empties the reference`] : []),
  ];
}

/** Tables that refer to each other in a circle: none of them could be spread first. */
function circles(references: readonly ForeignKey[]): string[] {
  const waiting = new Set(references.flatMap(({ from, to }) => [from, to]));
  for (let size = -1; size !== waiting.size; ) {
    size = waiting.size;
    for (const table of waiting)
      if (!references.some(({ from, to }) => from === table && to !== table && waiting.has(to))) waiting.delete(table);
  }
  return waiting.size === 0 ? [] : [`refer to each other in a circle: ${[...waiting].sort().join(', ')}`];
}

/** Statements of db/ that read rows of all companies, by `file function`, each with a reason. The list may only shrink. */
export const acrossCompanies: Readonly<Record<string, string>> = {
  'db/access/places.ts findKeyPlaces': 'finds the company',
  'db/access/places.ts findUserPlaces': 'finds the company',
  'db/access/places.ts findSignInPlace': 'finds the company',
  'db/access/audit-logs.ts sweepOtherAuditLogs': 'finds whose rows of no month are past their time, by an index',
  'db/records/feed.ts sweepEvents': 'finds whose events are past their time, the oldest of each feed by its key',
  'db/access/sessions.ts sweepSessions': 'finds whose sessions are past their time, by an index',
  'db/access/shown-secrets.ts sweepForms': 'finds whose forms were sent long ago, by an index',
  'db/client/idempotency.ts sweep': 'finds whose answers are past their time, by an index',
  'db/billing/quota.ts sweepLeases': 'finds whose blocks of calls nobody renews, by an index',
  'db/messaging/mails.ts takeMails': 'finds whose mails are due, by an index',
  'db/messaging/mails.ts sweepMails': 'finds whose mails are past their time, by an index',
  'db/settings/sla-due.ts findDueScopes': 'finds whose clocks are due, by an index',
  'db/settings/sla-due.ts findRevisedPolicies': 'finds whose policies were changed, by an index',
  'db/settings/sla-due.ts sweepClocks': 'finds whose clocks are past their time, by an index',
  'db/settings/sla-due.ts sweepNotifications': 'finds whose notifications are past their time, by an index',
  'db/client/waiting.ts findWaiting': 'finds whose events, deliveries or references wait, in the order of the key',
  'db/records/feed.ts countWaiting': 'tells operators how many events wait, of nobody in particular',
  'db/automation/webhook-backlog.ts findOldestNoted':
    'tells operators how long the oldest event waits, of nobody in particular',
  'db/access/expiring-keys.ts findExpiringKeys': 'finds whose keys expire soon, by an index',
  'db/reports/search-blocks.ts findDueChanges': 'finds whose texts wait, in the order of the key',
  'db/automation/workforce-runs.ts findDueRuns': 'finds whose runs are due, by an index',
  'db/records/imports.ts sweepImportErrors': 'finds whose failed rows are past their time, by an index',
  'db/records/imports.ts sweepImports': 'finds whose imports are past their time, by an index',
  'db/records/imports.ts findDueImports': 'finds whose imports are due, by an index',
  'db/messaging/received-reports.ts sweepReports': 'finds whose reports are past their time, by an index',
  'db/automation/workforce-runs.ts sweepRuns': 'finds whose runs are past their time, by an index',
  'db/automation/webhook-sending.ts findDueWebhooks': 'finds whose deliveries are due, by an index',
  'db/automation/webhook-sending.ts countPending': 'counts for the operator how many deliveries wait',
  'db/automation/webhook-sending.ts sweepDeliveries': 'finds whose deliveries are past their time, by an index',
  'db/billing/due.ts findLeftOperations': 'finds whose orders were left in the middle, by an index',
  'db/billing/due.ts findDueSubscriptions': 'finds whose subscriptions are due, by an index',
  'db/billing/provider-customers.ts findCompanyOfCustomer': 'finds the company',
  'db/billing/purge.ts findUnswept': 'finds which companies were removed and not looked at since, by an index',
  'db/billing/provider-customers.ts findDueCustomers': 'finds whose customers are to be looked at, by an index',
  'db/billing/provider-customers.ts sweepProviderEvents': 'finds whose events are past their time, by an index',
  'db/billing/usage.ts sweepKeyDays': 'finds whose counts of calls by day are past their time, by an index',
  'db/messaging/campaigns.ts findDueCampaigns': 'finds whose campaigns are due, by an index',
  'db/messaging/draft-decisions.ts findDecidedRuns': 'finds about whose runs something was decided, by an index',
  'db/messaging/draft-sending.ts findDueQueues': 'finds whose messages are due, by an index',
  'db/messaging/draft-sending.ts countDueMessages':
    'tells operators how many messages are due, of nobody in particular',
  'db/scheduling/bookings.ts completeBookings': 'finds whose bookings are over, by an index',
  'db/scheduling/calendar-orders.ts findDueOrders': 'finds whose calendars are to be told, by an index',
  'db/scheduling/calendars.ts findDueCalendars': 'finds whose calendars are to be looked at, by an index',
  'db/scheduling/calendars.ts findUnreadCalendars': 'finds whose calendars were not read yet, by an index',
  'db/scheduling/reservations.ts sweepReservations': 'finds whose reservations are past their time, by an index',
  'db/scheduling/reservations.ts sweepHeldTimes': 'finds whose held times have run out, by an index',
  'db/records/stored-files.ts findFilesToRemove': 'finds whose files are to be removed, by an index',
};

/** Statements that lock without a company, by `file function`, each with a reason. The list may only shrink. */
export const locksWithoutCompany: Readonly<Record<string, string>> = {
  'db/client/migrate.ts migrate': 'tables are made on one machine, before there are rows',
};

export interface Statement {
  /** The file and the function. */
  place: string;
  /** With what is put into it, as far as the source text tells. */
  text: string;
}

/** All statements of the files of db/. */
export function statementsOfFiles(): Statement[] {
  return statementsIn(databaseSources());
}

/** @param sources names of files and what is in them */
export function statementsIn(sources: readonly (readonly [string, string])[]): Statement[] {
  const trees = sources.map(([name, text]) => treeOf(name, text));
  const declared = new Map<string, ts.Node>();
  for (const tree of trees) collect(tree, declared);
  return trees.flatMap((tree) =>
    templatesIn(tree).map((template) => ({
      place: `${tree.fileName} ${functionAround(template)}`,
      text: expanded(template, declared),
    })),
  );
}

/** Functions and constants at the top of files, by their names. */
function collect(tree: ts.SourceFile, declared: Map<string, ts.Node>): void {
  for (const statement of tree.statements) {
    if (ts.isFunctionDeclaration(statement) && statement.name) declared.set(statement.name.text, statement);
    if (ts.isVariableStatement(statement))
      for (const { name, initializer } of statement.declarationList.declarations)
        if (ts.isIdentifier(name) && initializer) declared.set(name.text, initializer);
  }
}

/** The text of a template, with the templates behind the values that are put into it. */
function expanded(template: ts.TaggedTemplateExpression, declared: ReadonlyMap<string, ts.Node>): string {
  const seen = new Set<ts.Node>();
  const textOf = (each: ts.TaggedTemplateExpression): string => {
    if (seen.has(each)) return '';
    seen.add(each);
    if (ts.isNoSubstitutionTemplateLiteral(each.template)) return each.template.text;
    const spans = each.template.templateSpans.map(
      ({ expression, literal }) => `§ ${behind(expression)} ${literal.text}`,
    );
    return each.template.head.text + spans.join('');
  };
  const behind = (node: ts.Node): string => {
    if (ts.isTaggedTemplateExpression(node)) return textOf(node);
    const own = ts.isIdentifier(node) ? declarationOf(node, declared) : undefined;
    const parts = own && !seen.has(own) ? [ts.isAwaitExpression(own) ? behind(own) : throughTemplates(own)] : [];
    ts.forEachChild(node, (child) => void parts.push(behind(child)));
    return parts.join(' ');
  };
  const throughTemplates = (node: ts.Node): string => {
    if (!ts.isTaggedTemplateExpression(node)) seen.add(node);
    const asked = callsReturned(node).map((name) => declared.get(name));
    const further = asked.map((each) => (each && !seen.has(each) ? throughTemplates(each) : ''));
    return [...templatesIn(node).map(textOf), ...further].join(' ');
  };
  return `${textOf(template)} ${isLockAlone(template) ? throughCall(template, declared, throughTemplates) : ''}`;
}

/** The functions whose answers a function returns as they are. */
function callsReturned(node: ts.Node): string[] {
  const names: string[] = [];
  const visit = (each: ts.Node, isReturned: boolean): void => {
    if (isReturned && ts.isCallExpression(each) && ts.isIdentifier(each.expression)) names.push(each.expression.text);
    else ts.forEachChild(each, (child) => visit(child, isReturned || ts.isReturnStatement(each)));
  };
  visit(node, false);
  return names;
}

const isLockAlone = ({ template }: ts.TaggedTemplateExpression): boolean =>
  ts.isNoSubstitutionTemplateLiteral(template) && /^\s*for /.test(template.text);

/** A lock that is handed to a function belongs to the statement there. */
function throughCall(
  template: ts.Node,
  declared: ReadonlyMap<string, ts.Node>,
  textOf: (node: ts.Node) => string,
): string {
  const call = template.parent;
  const callee =
    ts.isCallExpression(call) && ts.isIdentifier(call.expression) ? declared.get(call.expression.text) : undefined;
  return callee ? textOf(callee) : '';
}

/** What a name stands for: the constant of the functions around it, else what the files declare. */
function declarationOf(name: ts.Identifier, declared: ReadonlyMap<string, ts.Node>): ts.Node | undefined {
  for (let scope: ts.Node | undefined = name.parent; scope; scope = scope.parent) {
    if (!ts.isBlock(scope)) continue;
    for (const statement of scope.statements)
      if (ts.isVariableStatement(statement))
        for (const declaration of statement.declarationList.declarations)
          if (ts.isIdentifier(declaration.name) && declaration.name.text === name.text) return declaration.initializer;
  }
  return declared.get(name.text);
}

const locks = /\bfor (?:no key update|update|key share|share)\b|\bpg_\w*advisory\w*\b/;
const changes = /^\s*(?:with\b[\s\S]*)?(?:\bupdate|\bdelete from)\b/;
const reads = /^\s*(?:select|with)\b[\s\S]*\bfrom\b/;
const namesCompany = /\bcompany_id"?\s*=|\bcompany_id\)? = any|\bcompanies\b[\s\S]*\bid = /;
const rowsOf = (tables: ReadonlySet<string>) =>
  new RegExp(`\\b(?:from|join|update)\\s+(?:§|"?(?:${[...tables].join('|')})\\b)`);

/** What of the statements breaks a rule, by words; empty while all holds. @param exempt lists of exceptions */
export async function statementProblems(sql: ISql, statements: readonly Statement[]): Promise<string[]> {
  const ofTenants = rowsOf(new Set([...(await tenantTables(sql)), ...Object.keys(places)]));
  return statements.flatMap(({ place, text }) => {
    if (/\bctid\b/.test(text)) return [`${place} names rows by where they are stored`];
    if (namesCompany.test(text)) return [];
    if (locks.test(text))
      return Object.hasOwn(locksWithoutCompany, place) ? [] : [`${place} locks without naming a company`];
    if (changes.test(text) && ofTenants.test(text)) return [`${place} changes rows without naming a company`];
    if (reads.test(text) && ofTenants.test(text) && !Object.hasOwn(acrossCompanies, place))
      return [`${place} reads rows of all companies`];
    return [];
  });
}
