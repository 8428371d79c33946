// Rules of a database that is distributed by company, for tables and for statements in the source.
import type { ISql } from 'postgres';
import ts from 'typescript';
import { databaseSources, functionAround, parseTree, templatesIn } from './sources.ts';

/**
 * Lookup tables of places, with the reason. The rules of tenant tables do not apply to them. The
 * list may only shrink.
 */
export const places: Readonly<Record<string, string>> = {
  api_key_places:
    'a key names no company, so its hash is unique across companies; small enough to copy to every machine',
  user_places:
    'emails and users of access tokens name no company, so they are unique across companies; copied likewise',
  provider_customer_places: 'an event of a payment provider only names its customer; copied likewise',
};

/** Returns the tables' violations, or an empty list. */
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
  /** Its first column or expression. */
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
  if (!tables.has(from)) return [`${from}: ${name} refers to rows of tenants from a shared table`];
  const named = columns.some(([here, there]) => here === companyColumn(from) && there === companyColumn(to));
  return [
    ...(named ? [] : [`${from}: ${name} does not contain the company on both sides`]),
    ...(empties ? [`${from}: ${name} empties the reference`] : []),
  ];
}

/** Returns tables whose references form a cycle, so that none could be distributed first. */
function circles(references: readonly ForeignKey[]): string[] {
  const waiting = new Set(references.flatMap(({ from, to }) => [from, to]));
  for (let size = -1; size !== waiting.size; ) {
    size = waiting.size;
    for (const table of waiting)
      if (!references.some(({ from, to }) => from === table && to !== table && waiting.has(to))) waiting.delete(table);
  }
  return waiting.size === 0 ? [] : [`refer to each other in a circle: ${[...waiting].sort().join(', ')}`];
}

/**
 * Statements of db/ that read rows of all companies, by `file function`, each with its reason. The
 * list may only shrink.
 */
export const acrossCompanies: Readonly<Record<string, string>> = {
  'db/access/places.ts findKeyPlaces': 'finds the company',
  'db/access/places.ts findUserPlaces': 'finds the company',
  'db/access/places.ts findSignInPlace': 'finds the company',
  'db/access/audit-logs.ts sweepOtherAuditLogs':
    'finds companies with rows without a monthly partition past their retention, by an index',
  'db/access/requests.ts sweepOtherRequests':
    'finds companies with rows without a daily partition past their retention, by an index',
  'db/records/feed.ts sweepEvents': 'finds companies with events past their retention, the oldest of each feed by key',
  'db/access/sessions.ts sweepSessions': 'finds companies with sessions past their retention, by an index',
  'db/access/shown-secrets.ts sweepForms': 'finds companies with old sent forms, by an index',
  'db/client/idempotency.ts sweep': 'finds companies with stored responses past their retention, by an index',
  'db/billing/quota.ts sweepLeases': 'finds companies with abandoned quota leases, by an index',
  'db/messaging/mails.ts takeMails': 'finds companies with due mails, by an index',
  'db/messaging/mails.ts sweepMails': 'finds companies with mails past their retention, by an index',
  'db/settings/sla-due.ts findDueScopes': 'finds companies with due clocks, by an index',
  'db/settings/sla-due.ts findRevisedPolicies': 'finds companies with changed policies, by an index',
  'db/settings/sla-due.ts sweepClocks': 'finds companies with clocks past their retention, by an index',
  'db/records/notifications.ts sweepNotifications':
    'finds companies with notifications past their retention, by an index',
  'db/client/waiting.ts findWaiting': 'finds companies with pending events, deliveries or references, in key order',
  'db/records/feed.ts countWaiting': 'counts pending events of all companies for a metric',
  'db/automation/webhook-backlog.ts findOldestNoted':
    'returns the age of the oldest pending event of all companies for a metric',
  'db/access/expiring-keys.ts findExpiringKeys': 'finds companies with keys that expire soon, by an index',
  'db/reports/search-blocks.ts findDueChanges': 'finds companies with pending texts, in key order',
  'db/automation/workforce-runs.ts findDueRuns': 'finds companies with due runs, by an index',
  'db/messaging/received-reports.ts sweepReports': 'finds companies with reports past their retention, by an index',
  'db/automation/workforce-runs.ts sweepRuns': 'finds companies with runs past their retention, by an index',
  'db/automation/webhook-sending.ts findDueWebhooks': 'finds companies with due deliveries, by an index',
  'db/automation/webhook-sending.ts countPending': 'counts pending deliveries of all companies for a metric',
  'db/automation/webhook-sending.ts sweepDeliveries':
    'finds companies with deliveries past their retention, by an index',
  'db/billing/due.ts findAbandonedOperations': 'finds companies with abandoned operations, by an index',
  'db/billing/due.ts findDueSubscriptions': 'finds companies with due subscriptions, by an index',
  'db/records/change-sets.ts findExpiredChangeSets': 'finds companies with expired change sets, by an index',
  'db/records/change-sets.ts sweepChangeSets': 'finds companies with change sets past their retention, by an index',
  'db/records/merge-progress.ts findDueMerges': 'finds companies with merges that a job continues, by an index',
  'db/records/reverts.ts findDueReverts': 'finds companies with due reverts, by an index',
  'db/records/reverts.ts sweepReverts': 'finds companies with reverts whose items are due to be removed, by an index',
  'db/records/imports.ts findDueImports': 'finds companies with due imports, by an index',
  'db/records/imports.ts sweepImports': 'finds companies with imports past their retention, by an index',
  'db/billing/provider-customers.ts findCompanyOfCustomer': 'finds the company',
  'db/billing/purge.ts findUnswept': 'finds removed companies that were not checked since, by an index',
  'db/billing/provider-customers.ts findDueCustomers':
    'finds companies whose customers are due for synchronization, by an index',
  'db/billing/provider-customers.ts sweepProviderEvents':
    'finds companies with events past their retention, by an index',
  'db/billing/usage.ts sweepKeyDays': 'finds companies with counts of calls by day past their retention, by an index',
  'db/messaging/campaigns.ts findDueCampaigns': 'finds companies with due campaigns, by an index',
  'db/messaging/draft-decisions.ts findDecidedRuns': 'finds companies with decided runs, by an index',
  'db/messaging/draft-sending.ts findDueQueues': 'finds companies with due messages, by an index',
  'db/messaging/draft-sending.ts countDueMessages': 'counts due messages of all companies for a metric',
  'db/scheduling/bookings.ts findEndedBookings': 'finds companies with bookings that have ended, by an index',
  'db/scheduling/calendar-orders.ts findDueOrders': 'finds companies with due calendar operations, by an index',
  'db/scheduling/calendars.ts findDueCalendars': 'finds companies with due calendars, by an index',
  'db/scheduling/calendars.ts findUnreadCalendars': 'finds companies with unread calendars, by an index',
  'db/scheduling/reservations.ts sweepReservations':
    'finds companies with reservations past their retention, by an index',
  'db/scheduling/reservations.ts sweepHeldTimes': 'finds companies with expired holds, by an index',
  'db/records/stored-files.ts findFilesToRemove': 'finds companies with files to remove, by an index',
  'db/onboarding/test-clock.ts findDueClocks': 'finds companies whose test clock is ahead, and which few rows say',
  'db/onboarding/test-clock.ts selectDueWork': 'finds companies whose test clock is ahead and has due work, by indexes',
  'db/records/trash.ts findDueTrash': 'finds companies with deleted records past their retention, by an index',
  'db/records/restoration.ts findRestoring': 'finds companies with references to restore, by an index',
  'db/records/exports.ts findDueExports': 'finds companies with due exports, by an index',
  'db/records/exports.ts expireExports': 'finds companies with expired files, by an index',
  'db/records/exports.ts sweepExports': 'finds companies with exports past their retention, by an index',
};

/**
 * Statements that lock without a company, by `file function`, each with its reason. The list may
 * only shrink.
 */
export const locksWithoutCompany: Readonly<Record<string, string>> = {
  'db/client/migrate.ts migrate': 'migrations run on one machine before rows exist',
};

export interface Statement {
  /** The file and the function. */
  place: string;
  /** Includes inserted fragments, as far as the source shows them. */
  text: string;
}

/** Returns all statements of the files of db/. */
export function statementsOfFiles(): Statement[] {
  return statementsIn(databaseSources());
}

/**
 * Returns the statements of sources.
 * @param sources names and texts of files
 */
export function statementsIn(sources: readonly (readonly [string, string])[]): Statement[] {
  const trees = sources.map(([name, text]) => parseTree(name, text));
  const declared = new Map<string, ts.Node>();
  for (const tree of trees) collect(tree, declared);
  return trees.flatMap((tree) =>
    templatesIn(tree).map((template) => ({
      place: `${tree.fileName} ${functionAround(template)}`,
      text: expanded(template, declared),
    })),
  );
}

/** Collects top-level functions and constants by name. */
function collect(tree: ts.SourceFile, declared: Map<string, ts.Node>): void {
  for (const statement of tree.statements) {
    if (ts.isFunctionDeclaration(statement) && statement.name) declared.set(statement.name.text, statement);
    if (ts.isVariableStatement(statement))
      for (const { name, initializer } of statement.declarationList.declarations)
        if (ts.isIdentifier(name) && initializer) declared.set(name.text, initializer);
  }
}

/** Returns the text of a template, with the templates of its inserted values. */
function expanded(template: ts.TaggedTemplateExpression, declared: ReadonlyMap<string, ts.Node>): string {
  const seen = new Set<ts.Node>();
  const readSqlText = (each: ts.TaggedTemplateExpression): string => {
    if (seen.has(each)) return '';
    seen.add(each);
    if (ts.isNoSubstitutionTemplateLiteral(each.template)) return each.template.text;
    const spans = each.template.templateSpans.map(
      ({ expression, literal }) => `§ ${behind(expression)} ${literal.text}`,
    );
    return each.template.head.text + spans.join('');
  };
  const behind = (node: ts.Node): string => {
    if (ts.isTaggedTemplateExpression(node)) return readSqlText(node);
    const own = ts.isIdentifier(node) ? findDeclaration(node, declared) : undefined;
    const parts = own && !seen.has(own) ? [ts.isAwaitExpression(own) ? behind(own) : throughTemplates(own)] : [];
    ts.forEachChild(node, (child) => void parts.push(behind(child)));
    return parts.join(' ');
  };
  const throughTemplates = (node: ts.Node): string => {
    if (!ts.isTaggedTemplateExpression(node)) seen.add(node);
    const asked = callsReturned(node).map((name) => declared.get(name));
    const further = asked.map((each) => (each && !seen.has(each) ? throughTemplates(each) : ''));
    return [...templatesIn(node).map(readSqlText), ...further].join(' ');
  };
  return `${readSqlText(template)} ${isLockAlone(template) ? throughCall(template, declared, throughTemplates) : ''}`;
}

/** Returns the functions whose results a function returns unchanged. */
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

/**
 * Follows a function call, because a lock clause that is passed to a function belongs to that
 * function's statement.
 */
function throughCall(
  template: ts.Node,
  declared: ReadonlyMap<string, ts.Node>,
  readSqlText: (node: ts.Node) => string,
): string {
  const call = template.parent;
  const callee =
    ts.isCallExpression(call) && ts.isIdentifier(call.expression) ? declared.get(call.expression.text) : undefined;
  return callee ? readSqlText(callee) : '';
}

/** Returns the declaration of a name: a constant of the enclosing functions, or a top-level one. */
function findDeclaration(name: ts.Identifier, declared: ReadonlyMap<string, ts.Node>): ts.Node | undefined {
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
const buildRowPattern = (tables: ReadonlySet<string>) =>
  new RegExp(`\\b(?:from|join|update)\\s+(?:§|"?(?:${[...tables].join('|')})\\b)`);

/** Returns the statements' violations, or an empty list. */
export async function statementProblems(sql: ISql, statements: readonly Statement[]): Promise<string[]> {
  const ofTenants = buildRowPattern(new Set([...(await tenantTables(sql)), ...Object.keys(places)]));
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
