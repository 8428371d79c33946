// Row-level security policies with one condition removed, and the access that follows.
import type { ISql, TransactionSql } from 'postgres';
import { tried } from '../support/noted-statements.ts';
import { listSamples } from './fill-tables.ts';
import type { TenantTable } from './schema.ts';

export interface PolicyMutant {
  name: string;
  table: TenantTable;
  /** The statement that removes the condition. */
  statement: string;
}

interface Policy {
  table: string;
  name: string;
  using: string | null;
  check: string | null;
}

async function readPolicies(sql: ISql): Promise<Policy[]> {
  return sql<Policy[]>`
    select tablename as table, policyname as name, qual as using, with_check as check
    from pg_policies where schemaname = 'public' and 'crm_app' = any(roles) order by 1, 2`;
}

/**
 * Returns mutants: each condition of each tenant policy removed, and each table without its
 * policies.
 */
export async function policyMutants(sql: ISql, tables: readonly TenantTable[]): Promise<PolicyMutant[]> {
  const mutants: PolicyMutant[] = [];
  for (const policy of await readPolicies(sql)) {
    const table = tables.find(({ name }) => name === policy.table);
    if (!table) throw new Error(`${policy.table} has a policy for tenants and no company`);
    for (const part of ['using', 'check'] as const) {
      for (const condition of splitConditions(policy[part])) {
        const clause = part === 'using' ? 'using' : 'with check';
        const weaker = (policy[part] ?? '').replace(condition, 'true');
        if (!(await canDetect(sql, table, part, condition))) continue;
        mutants.push({
          name: `${policy.table}: ${clause} without ${condition}`,
          table,
          statement: `alter policy "${policy.name}" on ${policy.table} ${clause} (${weaker})`,
        });
      }
    }
    // Without any privilege of the role, a policy has nothing to protect.
    if (!(await hasRights(sql, table))) continue;
    mutants.push({
      name: `${policy.table} without row-level security`,
      table,
      statement: `alter table ${policy.table} disable row level security`,
    });
  }
  return mutants;
}

/** Splits `(a = f()) and (b = g())` into its parts. */
const splitConditions = (expression: string | null): string[] => expression?.match(/\(\w+ = \w+\(\)\)/g) ?? [];

/** Returns false if no privilege of the role could break the condition. */
async function canDetect(sql: ISql, table: TenantTable, part: 'using' | 'check', condition: string): Promise<boolean> {
  const column = /\w+/.exec(condition)?.[0] ?? '';
  const [may] = await sql<{ reads: boolean; writes: boolean }[]>`
    select has_column_privilege('crm_app', ${table.name}, ${column}, 'select') as reads,
      has_column_privilege('crm_app', ${table.name}, ${column}, 'insert') or has_column_privilege('crm_app', ${table.name}, ${column}, 'update') as writes`;
  return (part === 'using' ? may?.reads : may?.writes) === true;
}

async function hasRights(sql: ISql, { name }: TenantTable): Promise<boolean> {
  const [row] = await sql<{ has: boolean }[]>`
    select has_any_column_privilege('crm_app', ${name}, 'select, insert, update') or has_table_privilege('crm_app', ${name}, 'delete') as has`;
  return row?.has === true;
}

/** Returns what a tenant's request can do to foreign rows of a table. Empty if isolation holds. */
export async function breachesIn(
  sql: TransactionSql,
  table: TenantTable,
  companyId: string,
  otherId: string,
): Promise<string[]> {
  const { name, company } = table;
  const [policy] = (await readPolicies(sql)).filter((each) => each.table === name);
  const modes = /test_mode/.test(policy?.using ?? '') || (table.hasMode && name !== 'audit_logs');
  const foreign = `(${company} <> '${companyId}'${modes ? ' or test_mode' : ''})`;
  const found: string[] = [];
  await sql.savepoint(async (inner) => {
    await inner.unsafe(
      `set local app.company_id = '${companyId}'; set local app.test_mode = 'false'; set local role ${tried('crm_app')}`,
    );
    const count = (statement: string): Promise<number> =>
      inner.savepoint(async (each) => (await each.unsafe(statement)).count).catch(() => 0);
    const code = (statement: string): Promise<string> =>
      inner
        .savepoint(async (each) => {
          await each.unsafe(statement);
          return '';
        })
        .catch((error: { code?: string }) => error.code ?? '');
    if ((await count(`select ${company} from ${name} where ${foreign}`)) > 0) found.push('reads');
    for (const [column, value] of [[company, otherId], ...(modes ? [['test_mode', 'true']] : [])] as [
      string,
      string,
    ][]) {
      if (!(await may(inner, name, column, 'update'))) continue;
      const given = await code(`update ${name} set ${column} = '${value}'`);
      if (given !== refused) found.push(`gives away by ${column}`);
    }
    for (const [owner, mode] of [[otherId, 'false'], ...(modes ? [[companyId, 'true']] : [])] as [string, string][]) {
      if (!(await may(inner, name, company, 'insert'))) continue;
      if ((await code(insertInto(table, owner, mode))) !== refused)
        found.push(`adds for ${owner === companyId ? 'the other mode' : 'another'}`);
    }
    await inner.unsafe('reset role');
  });
  return found;
}

/** Insufficient privilege, the error of a policy that rejects a row. */
const refused = '42501';

async function may(sql: TransactionSql, table: string, column: string, action: string): Promise<boolean> {
  const [row] = await sql<
    { may: boolean }[]
  >`select has_column_privilege('crm_app', ${table}, ${column}, ${action}) as may`;
  return row?.may === true;
}

/**
 * Returns an insert of a foreign row. Policies reject it before keys and constraints are checked.
 */
function insertInto(table: TenantTable, owner: string, testMode: string): string {
  const columns = table.columns.filter((column) => column.needed || column.key);
  const values = columns.map((column) => {
    if (column.name === table.company) return `'${owner}'`;
    return column.name === 'test_mode' ? testMode : (listSamples(column)[0] ?? 'null');
  });
  return `insert into ${table.name} (${columns.map(({ name }) => `"${name}"`).join(', ')}) values (${values.join(', ')})`;
}
