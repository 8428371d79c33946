// make schema: writes db/schema.sql, the schema that the migrations produce.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import postgres, { type Sql } from 'postgres';
import { startEmbedded } from '../app/embedded-postgres/database.ts';
import { migrate } from '../db/client/migrate.ts';

export const schemaFile = fileURLToPath(new URL('../db/schema.sql', import.meta.url));

const header = `-- The schema that db/migrations make, for reading. Derived by \`make schema\`, never edited.
--
-- Sorted by name, so it cannot be run as it stands. The migrations say why things are as they are.
-- Rows that the migrations insert, and the monthly partitions of audit_logs, are not shown.
`;

/** Maximum characters per line of SQL. */
const lineWidth = 120;

/** Changes the parts of a text outside of quotes. */
function outsideQuotes(text: string, change: (part: string) => string): string {
  return text
    .split(/('(?:[^']|'')*'|"[^"]*")/)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('');
}

/**
 * Formats a definition of PostgreSQL's catalog as a person would write it: lowercase, no casts of
 * literals, few parentheses.
 */
function tidy(definition: string): string {
  let text = definition.replace(
    /('(?:[^']|'')*')::(?:text|jsonb|json|boolean|timestamp with time zone)(?:\[\])?/g,
    '$1',
  );
  text = outsideQuotes(text, (part) => part.toLowerCase()).replaceAll('public.', '');
  text = text.replace(/\((\d+)\)::\w+/g, '$1');
  text = text.replace(/\((\w+) = any \(array\[([^\]]*)\]\)\)/g, '$1 in ($2)');
  for (let before = ''; before !== text; ) {
    before = text;
    // Removes parentheses around one of several conditions, or around a single column.
    text = text.replace(/(^|\(| and | or )\(((?:[^()]|\([^()]*\))*)\)(?=$|\)| and | or )/g, (whole, lead, inner) =>
      / and | or /.test(inner) && lead.trim() !== '' && lead !== '(' ? whole : `${lead}${inner}`,
    );
  }
  return text.replace(/^\((.*)\)$/, (whole, inner: string) => (isBalanced(inner) ? inner : whole));
}

/** Returns true if every closing parenthesis has an opening one before it. */
function isBalanced(text: string): boolean {
  let depth = 0;
  for (const character of text) {
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (depth < 0) return false;
  }
  return depth === 0;
}

/** Breaks a statement into lines of at most `lineWidth`: before its clauses, then after commas and before `and` and `or`. */
function wrap(statement: string): string {
  if (statement.length <= lineWidth) return statement;
  const clauses = statement.split(/ (?=using \(|with check \(|where |when \(|execute )/);
  return clauses.flatMap((clause, place) => wrapClause(place === 0 ? clause : `  ${clause}`)).join('\n');
}

function wrapClause(clause: string): string[] {
  const indent = `${/^ */.exec(clause)?.[0]}  `;
  const lines = [''];
  for (const word of clause.split(/(?<=, )|(?= and | or | on )/)) {
    const line = lines.at(-1) ?? '';
    if (`${line}${word}`.trimEnd().length > lineWidth && line !== '') lines.push(`${indent}${word.trimStart()}`);
    else lines[lines.length - 1] = line + word;
  }
  return lines.map((line) => line.trimEnd());
}

const shortTypes: Readonly<Record<string, string>> = {
  'timestamp(3) with time zone': 'timestamptz(3)',
  'timestamp with time zone': 'timestamptz',
  integer: 'int',
};

interface Column {
  table: string;
  name: string;
  type: string;
  isRequired: boolean;
  value: string | null;
  isIdentity: boolean;
  isGenerated: boolean;
  /** Statistics and storage settings, which `create table` cannot express. */
  settings: string[];
}

interface Constraint {
  table: string;
  name: string;
  kind: 'c' | 'f' | 'p' | 'u' | 'x';
  columns: string[];
  definition: string;
}

interface Part {
  table: string;
  text: string;
}

/** The schema by table; each value is a list of statements. */
interface Schema {
  extensions: string[];
  functions: string[];
  tables: Map<string, TableSchema>;
}

interface TableSchema {
  columns: { name: string; text: string }[];
  /** Keys and checks of several columns. */
  constraints: string[];
  /** The clauses after the list of columns: partitioning, storage parameters. */
  suffix: string;
  /** The parent and the bounds of a partition. */
  partition: string | undefined;
  settings: string[];
  indexes: string[];
  security: string[];
  policies: string[];
  grants: string[];
  triggers: string[];
}

const isInPublic = `c.relnamespace = 'public'::regnamespace and c.relname <> 'migrations' and c.relname !~ '^audit_logs_\\d{4}_\\d{2}$'`;

/** Reads the schema of a migrated database. */
async function readSchema(sql: Sql): Promise<Schema> {
  const extensions = await sql<
    { name: string }[]
  >`select extname as name from pg_extension where extname <> 'plpgsql' order by 1`;
  const functions = await sql<{ text: string }[]>`
    select pg_get_functiondef(p.oid) as text from pg_proc p
    where p.pronamespace = 'public'::regnamespace
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    order by p.proname, p.oid::regprocedure::text`;
  const functionGrants = await sql<{ text: string }[]>`
    select format('grant execute on %s %s to %s', case p.prokind when 'p' then 'procedure' else 'function' end,
      p.oid::regprocedure, g.grantee::regrole) as text
    from pg_proc p, aclexplode(p.proacl) g
    where p.pronamespace = 'public'::regnamespace and g.grantee <> 0 and g.grantee <> p.proowner
    order by 1`;
  const closed = await sql<{ text: string }[]>`
    select format('revoke execute on function %s from public', p.oid::regprocedure) as text
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proacl is not null
      and not exists (select from aclexplode(p.proacl) g where g.grantee = 0)
    order by 1`;
  const tables = await sql<
    { name: string; partitionKey: string | null; options: string[] | null; partition: string | null }[]
  >`
    select c.relname as name, pg_get_partkeydef(c.oid) as "partitionKey", c.reloptions as options,
      (select format('partition of %s %s', inhparent::regclass, lower(pg_get_expr(c.relpartbound, c.oid)))
       from pg_inherits where inhrelid = c.oid) as partition
    from pg_class c where ${sql.unsafe(isInPublic)} and c.relkind in ('r', 'p') order by 1`;
  const columns = await sql<Column[]>`
    select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as "isRequired",
      pg_get_expr(d.adbin, d.adrelid) as value, a.attidentity <> '' as "isIdentity", a.attgenerated <> '' as "isGenerated",
      array_remove(array[
        (select format('set (%s)', array_to_string(a.attoptions, ', ')) where a.attoptions is not null),
        (select 'set storage external' where a.attstorage = 'e')
      ], null) as settings
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where ${sql.unsafe(isInPublic)} and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
    order by 1, a.attnum`;
  const constraints = await sql<Constraint[]>`
    select c.relname as table, k.conname as name, k.contype as kind, pg_get_constraintdef(k.oid) as definition,
      array(select a.attname from unnest(k.conkey) with ordinality as each (attnum, place)
            join pg_attribute a on a.attrelid = c.oid and a.attnum = each.attnum order by place) as columns
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where ${sql.unsafe(isInPublic)} and k.contype in ('c', 'f', 'p', 'u', 'x') and k.conparentid = 0 and not c.relispartition
    order by 1, position(k.contype::text in 'puxfc'), k.oid`;
  const indexes = await sql<Part[]>`
    select t.relname as table, pg_get_indexdef(c.oid) as text
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
    where ${sql.unsafe(isInPublic)} and not exists (select from pg_constraint k where k.conindid = c.oid and k.contype in ('p', 'u', 'x'))
      and not exists (select from pg_inherits where inhrelid = c.oid)
    order by 1, c.relname`;
  const security = await sql<(Part & { forced: boolean })[]>`
    select c.relname as table, c.relforcerowsecurity as forced, '' as text from pg_class c
    where ${sql.unsafe(isInPublic)} and c.relrowsecurity order by 1`;
  const policies = await sql<
    { table: string; name: string; roles: string; command: string; using: string | null; check: string | null }[]
  >`
    select tablename as table, policyname as name, array_to_string(roles, ', ') as roles, cmd as command, qual as using, with_check as check
    from pg_policies where schemaname = 'public' order by 1, policyname <> 'tenant', 2`;
  const grants = await sql<{ table: string; role: string; privilege: string; columns: string[] | null }[]>`
    select c.relname as table, g.grantee::regrole::text as role, lower(g.privilege_type) as privilege, null as columns
    from pg_class c, aclexplode(c.relacl) g
    where ${sql.unsafe(isInPublic)} and c.relkind in ('r', 'p') and g.grantee <> c.relowner
    union all
    select c.relname, g.grantee::regrole::text, lower(g.privilege_type), array_agg(a.attname order by a.attnum)
    from pg_class c join pg_attribute a on a.attrelid = c.oid, aclexplode(a.attacl) g
    where ${sql.unsafe(isInPublic)} and g.grantee <> c.relowner
    group by 1, 2, 3`;
  const triggers = await sql<Part[]>`
    select c.relname as table, pg_get_triggerdef(t.oid) as text from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where ${sql.unsafe(isInPublic)} and not t.tgisinternal and t.tgparentid = 0 order by 1, t.tgname`;
  const of = <T extends { table: string }>(parts: readonly T[], table: string): T[] =>
    parts.filter((part) => part.table === table);
  return {
    extensions: extensions.map(({ name }) => `create extension ${name}`),
    functions: [
      ...functions.map(({ text }) => text.trimEnd().replace(/\bpublic\./g, '')),
      ...closed.map(({ text }) => text),
      ...functionGrants.map(({ text }) => text),
    ],
    tables: new Map(
      tables.map(({ name, partitionKey, options, partition }) => [
        name,
        {
          ...listColumns(of(columns, name), of(constraints, name)),
          suffix: [
            ...(partitionKey === null ? [] : [` partition by ${partitionKey.toLowerCase()}`]),
            ...(options === null ? [] : [` with (\n  ${options.join(',\n  ').replaceAll('=', ' = ')}\n)`]),
          ].join(''),
          partition: partition ?? undefined,
          settings: of(columns, name).flatMap((column) =>
            partition === null
              ? column.settings.map(
                  (each) => `alter table ${name} alter column ${column.name} ${each.replaceAll('=', ' = ')}`,
                )
              : [],
          ),
          indexes: of(indexes, name).map(({ text }) => tidyIndex(text)),
          security: of(security, name).map(
            ({ forced }) =>
              `alter table ${name} enable row level security${forced ? ', force row level security' : ''}`,
          ),
          policies: of(policies, name).map(describePolicy),
          grants: describeGrants(name, of(grants, name)),
          triggers: of(triggers, name).map(({ text }) => tidyTrigger(text)),
        },
      ]),
    ),
  };
}

/** Returns PostgreSQL's default name of a constraint. */
function defaultName({ table, kind, columns }: Constraint): string {
  if (kind === 'p') return `${table}_pkey`;
  const suffix = { c: 'check', f: 'fkey', u: 'key', x: 'excl' }[kind];
  // The default name of a check of several columns contains no column.
  const named = kind === 'c' && columns.length > 1 ? [] : columns;
  return [table, ...named, suffix].join('_');
}

function listColumns(
  columns: readonly Column[],
  constraints: readonly Constraint[],
): Pick<TableSchema, 'columns' | 'constraints'> {
  const written = constraints.map((constraint) => {
    const name = defaultName(constraint);
    const isDefault = constraint.name.replace(/\d$/, '') === name.replace(/\d$/, '') || name.length > 63;
    const definition = outsideQuotes(tidyConstraint(constraint.definition), (part) => part);
    return {
      ...constraint,
      text: isDefault ? definition : `constraint ${constraint.name} ${definition}`,
      isInline: constraint.columns.length === 1 && constraint.kind !== 'x',
    };
  });
  return {
    columns: columns.map((column) => ({
      name: column.name,
      text: [
        column.name,
        shortTypes[column.type] ?? column.type,
        ...(column.isRequired && !isPrimary(column, written) ? ['not null'] : []),
        ...describeValue(column),
        ...written
          .filter(({ isInline, columns: [only] }) => isInline && only === column.name)
          .map(({ kind, text }) =>
            kind === 'c'
              ? text
              : text
                  .replace(/^(primary key|unique|foreign key) \(\w+\)/, (_, word: string) =>
                    word === 'foreign key' ? '' : word,
                  )
                  .trim(),
          ),
      ].join(' '),
    })),
    constraints: written.filter(({ isInline }) => !isInline).map(({ text }) => text),
  };
}

function isPrimary(column: Column, constraints: readonly (Constraint & { isInline: boolean })[]): boolean {
  return constraints.some(({ kind, isInline, columns }) => kind === 'p' && isInline && columns[0] === column.name);
}

function describeValue({ value, isIdentity, isGenerated }: Column): string[] {
  if (isIdentity) return ['generated always as identity'];
  if (value === null) return [];
  return isGenerated ? [`generated always as (${tidy(value)}) stored`] : [`default ${tidy(value)}`];
}

function tidyConstraint(definition: string): string {
  if (!definition.startsWith('CHECK'))
    return outsideQuotes(definition, (part) => part.toLowerCase()).replace(/references (\w+)\(/, 'references $1 (');
  return `check (${tidy(definition.slice('CHECK '.length))})`;
}

function tidyIndex(definition: string): string {
  const [head = '', condition] = definition.split(' WHERE ');
  const text = outsideQuotes(head, (part) => part.toLowerCase())
    .replace(' on public.', ' on ')
    .replace(' on only public.', ' on ')
    .replace(' using btree', '');
  return condition === undefined ? text : `${text} where ${tidy(condition)}`;
}

function describePolicy(policy: {
  table: string;
  name: string;
  roles: string;
  command: string;
  using: string | null;
  check: string | null;
}): string {
  return [
    `create policy ${policy.name} on ${policy.table}`,
    ...(policy.command === 'ALL' ? [] : [`for ${policy.command.toLowerCase()}`]),
    `to ${policy.roles}`,
    ...(policy.using === null ? [] : [`using (${tidy(policy.using)})`]),
    ...(policy.check === null ? [] : [`with check (${tidy(policy.check)})`]),
  ].join(' ');
}

const privileges = ['select', 'insert', 'update', 'delete'];

function describeGrants(
  table: string,
  grants: readonly { role: string; privilege: string; columns: string[] | null }[],
): string[] {
  const roles = [...new Set(grants.map(({ role }) => role))].sort();
  return roles.map((role) => {
    const given = grants
      .filter((grant) => grant.role === role)
      .sort((a, b) => privileges.indexOf(a.privilege) - privileges.indexOf(b.privilege))
      .map(({ privilege, columns }) => (columns ? `${privilege} (${columns.join(', ')})` : privilege));
    return `grant ${given.join(', ')} on ${table} to ${role}`;
  });
}

function tidyTrigger(definition: string): string {
  const condition = / WHEN \((.*)\) EXECUTE /.exec(definition)?.[1];
  const text = outsideQuotes(definition, (part) => part.toLowerCase()).replace(' on public.', ' on ');
  return condition === undefined
    ? text
    : text.replace(/ when \(.*\) execute /, () => ` when (${tidy(condition)}) execute `);
}

/** Returns the text of db/schema.sql for a migrated database. */
export async function describeSchema(sql: Sql): Promise<string> {
  const { extensions, functions, tables } = await readSchema(sql);
  const end = (statements: readonly string[]): string => statements.map((each) => `${wrap(each)};\n`).join('');
  const texts = [...tables].map(([name, table]) => {
    const lines = [...table.columns.map(({ text }) => text), ...table.constraints].map(
      (line) => `  ${wrap(line).replaceAll('\n', '\n  ')}`,
    );
    const body = table.partition === undefined ? `(\n${lines.join(',\n')}\n)${table.suffix}` : table.partition;
    return `create table ${name} ${body};\n${end([
      ...table.settings,
      ...table.indexes,
      ...table.security,
      ...table.policies,
      ...table.grants,
      ...table.triggers,
    ])}`;
  });
  return [header, end(extensions), ...texts, ...functions.map((text) => `${text};\n`)].join('\n');
}

/**
 * Migrates a temporary embedded database.
 * @returns the text of db/schema.sql
 */
async function schemaOfMigrations(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'schema-'));
  const database = await startEmbedded(folder, () => undefined);
  try {
    await migrate(database.url);
    const sql = postgres(database.url, { max: 1, onnotice: () => undefined });
    const text = await describeSchema(sql);
    await sql.end();
    return text;
  } finally {
    await database.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) writeFileSync(schemaFile, await schemaOfMigrations());
