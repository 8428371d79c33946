// Tables and statements keep to the rules of rows that are distributed by company.
import type { TransactionSql } from 'postgres';
import { expect, test } from 'vitest';
import { database } from '../support/tenants.ts';
import {
  acrossCompanies,
  locksWithoutCompany,
  places,
  type Statement,
  statementProblems,
  statementsIn,
  statementsOfFiles,
  tableProblems,
} from './distribution.ts';
import { listedPlaces } from './sent-statements.ts';

/** Runs statements in a transaction that is rolled back. */
async function rollBackAfter<T>(work: (sql: TransactionSql) => Promise<T>): Promise<T> {
  const undo = new Error('undo');
  let result: T | undefined;
  await database()
    .begin(async (sql) => {
      result = await work(sql);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return result as T;
}

test('keeps the company in every key and reference, with no reference that a key clears and no cycle', async () => {
  expect(await tableProblems(database())).toEqual([]);
});

test.each([
  ['create table odd (company_id uuid, id uuid)', ['odd has no primary key']],
  ['create table odd (company_id uuid, id uuid primary key)', ['odd: odd_pkey does not begin with the company']],
  [
    'create table odd (company_id uuid, id uuid, name text, primary key (company_id, id)); create unique index odd_name on odd (lower(name))',
    ['odd: odd_name does not begin with the company'],
  ],
  [
    'create table odd (company_id uuid references companies on delete set null, id uuid, primary key (company_id, id))',
    ['odd: odd_company_id_fkey empties the reference'],
  ],
  [
    'create table odd (company_id uuid, user_id uuid, primary key (company_id, user_id), foreign key (user_id, company_id) references users (company_id, id))',
    ['odd: odd_user_id_company_id_fkey does not contain the company on both sides'],
  ],
  [
    'create table odd (owner uuid, user_id uuid, foreign key (owner, user_id) references users (company_id, id))',
    ['odd: odd_owner_user_id_fkey refers to rows of tenants from a shared table'],
  ],
  [
    'alter table branches add foreign key (company_id, manager_user_id) references users (company_id, id)',
    [expect.stringMatching(/^refer to each other in a circle: .*branches.*users/)],
  ],
])('detects %s', async (statement, problems) => {
  const found = await rollBackAfter(async (sql) => {
    await sql.unsafe(statement);
    return tableProblems(sql);
  });
  expect(found).toEqual(problems);
});

test('names a company in every statement that locks, changes or reads tenant rows, except listed ones', async () => {
  expect(await statementProblems(database(), statementsOfFiles())).toEqual([]);
});

/** @param body with {value} for the values of a template */
const inFile = (body: string): Statement[] =>
  statementsIn([['db/odd.ts', `export function odd() { ${body.replaceAll('{', '${')} }`]]);

test.each([
  ['sql`select from users where id = {id} for update`', ['db/odd.ts odd locks without naming a company']],
  ['sql`select pg_advisory_xact_lock({id})`', ['db/odd.ts odd locks without naming a company']],
  ['sql`delete from sessions where expires_at < {now}`', ['db/odd.ts odd changes rows without naming a company']],
  ['sql`update {sql(table)} set a = 1 where id = {id}`', ['db/odd.ts odd changes rows without naming a company']],
  ['sql`select id from leads where id = {id}`', ['db/odd.ts odd reads rows of all companies']],
  [
    'sql`delete from leads where company_id = {id} and ctid = any({rows})`',
    ['db/odd.ts odd names rows by where they are stored'],
  ],
  ['const own = sql`company_id = {id}`; return sql`delete from leads where {own}`', []],
  ['sql`select pg_advisory_xact_lock(1) from companies where id = {id}`', []],
  ['sql`select id, name from roles`', []],
])('reports the problems of %s', async (body, problems) => {
  expect(await statementProblems(database(), inFile(body))).toEqual(problems);
});

test('lists only existing statements and tables as exceptions', async () => {
  const found = new Set(statementsOfFiles().map(({ place }) => place));
  const listed = [...Object.keys(acrossCompanies), ...Object.keys(locksWithoutCompany)];
  expect(listed.filter((place) => !found.has(place))).toEqual([]);
  expect(listedPlaces.filter((begin) => ![...found].some((place) => place.startsWith(begin)))).toEqual([]);
  const tables = await database()<{ name: string }[]>`select relname as name from pg_class where relkind = 'r'`;
  expect(Object.keys(places).filter((place) => !tables.some(({ name }) => name === place))).toEqual([]);
});
