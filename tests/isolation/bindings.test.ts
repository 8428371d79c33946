// Reading the parse tree of a statement: which rows no condition binds to a company or a mode.
import { expect, test } from 'vitest';
import { type Catalogue, parseTrees, readBindings, type TenantColumns } from './bindings.ts';

const both = { company: 'company_id', mode: 'test_mode' };
const catalogue: Catalogue = {
  tenants: new Map<string, TenantColumns>([
    ['companies', { company: 'id', mode: undefined }],
    ['users', { company: 'company_id', mode: undefined }],
    ['leads', both],
    ['notes', both],
  ]),
  columns: new Map([
    ['companies', new Set(['id', 'name'])],
    ['users', new Set(['company_id', 'id', 'email'])],
    ['leads', new Set(['company_id', 'test_mode', 'id', 'owner', 'score'])],
    ['notes', new Set(['company_id', 'test_mode', 'id', 'lead_id'])],
    ['roles', new Set(['id', 'name'])],
    ['places', new Set(['hash', 'company_id'])],
  ]),
};

async function unbound(text: string): Promise<string[]> {
  return (await parseTrees(text)).flatMap((tree) => readBindings(tree, catalogue).unbound);
}

const own = 'company_id = $1 and test_mode = $2';

test.each([
  'select name from companies where id = $1',
  `select id from leads where ${own}`,
  'select id from leads where company_id = $1 and not test_mode',
  'select id from leads where (company_id, test_mode) = ($1, $2)',
  'select id from leads where company_id = any($1::uuid[]) and test_mode in (true, false)',
  `select l.id from leads l join users u on u.company_id = l.company_id and u.id = l.owner where l.company_id = $1 and l.test_mode = $2`,
  `select l.id from leads l left join notes n on n.company_id = l.company_id and n.test_mode = l.test_mode where l.company_id = $1 and l.test_mode`,
  `select l.id from leads l join notes n using (company_id, test_mode) where l.company_id = $1 and n.test_mode`,
  `select id from users u where company_id = $1 and exists (select from leads l where l.company_id = u.company_id and l.test_mode = $2)`,
  `with due as (select company_id, test_mode, id from leads where ${own}) delete from leads where (company_id, test_mode, id) in (select company_id, test_mode, id from due)`,
  `update leads l set score = n.count from (select company_id, test_mode, count(*) from notes where ${own} group by 1, 2) n where l.company_id = n.company_id and l.test_mode = n.test_mode`,
  `insert into leads (company_id, test_mode, id) values ($1, $2, $3) on conflict (company_id, test_mode, id) do update set score = 1 where leads.score > 0 returning id`,
  `with made as (insert into leads (company_id, test_mode) values ($1, $2) returning company_id, test_mode, id) select from notes n join made m on n.company_id = m.company_id and n.test_mode = m.test_mode`,
  'select from users u join lateral unnest($1::uuid[]) as asked (company) on u.company_id = asked.company',
  'select from users where company_id = (select company_id from places where hash = $1)',
  'select name from roles where id = $1',
  'with recursive above as (select company_id, id from users where company_id = $1 union all select u.company_id, u.id from users u join above a on u.company_id = a.company_id) select * from above',
  'begin',
])('finds all rows of %s bound, by necessary conditions only', async (text) => {
  expect(await unbound(text)).toEqual([]);
  for (const tree of await parseTrees(text)) {
    const { conditions } = readBindings(tree, catalogue);
    for (const condition of conditions) expect(readBindings(tree, catalogue, condition).unbound).not.toEqual([]);
  }
});

test.each([
  ['select name from companies', ['companies: company']],
  ['select id from leads where company_id = $1', ['leads: mode']],
  ['select id from leads where test_mode = $1', ['leads: company']],
  [`select id from leads where ${own} or id = $3`, ['leads: company', 'leads: mode']],
  ['select id from leads where company_id <> $1 and test_mode is not null', ['leads: company', 'leads: mode']],
  ['select id from leads where company_id = owner and test_mode', ['leads: company']],
  [`select from leads l join users u on u.id = l.owner where l.company_id = $1 and l.test_mode`, ['u: company']],
  [`select from users u join leads l on l.company_id = u.company_id and l.test_mode`, ['u: company', 'l: company']],
  [
    'select from users u left join leads l on u.company_id = $1 and l.company_id = $1 and l.test_mode where u.id = $2',
    ['u: company'],
  ],
  [
    `select from users where company_id = $1 and exists (select from leads l where l.id = $2)`,
    ['l: company', 'l: mode'],
  ],
  [`select (select count(*) from leads where test_mode = $2) from users where company_id = $1`, ['leads: company']],
  [
    `with due as (select id from leads where ${own}) delete from notes where lead_id in (select id from due)`,
    ['notes: company', 'notes: mode'],
  ],
  ['update leads set score = 1 where id = $1', ['leads: company', 'leads: mode']],
  [
    `insert into notes (company_id, test_mode) select company_id, test_mode from leads where id = $1`,
    ['leads: company', 'leads: mode'],
  ],
  [`select id from leads where ${own} union all select id from leads where test_mode`, ['leads: company']],
  [
    `select from users u where u.company_id = $1 and not (u.company_id = $2) and (select true from leads limit 1)`,
    ['leads: company', 'leads: mode'],
  ],
])('reports the problems of %s', async (text, tenantColumns) => {
  expect((await unbound(text)).sort()).toEqual([...tenantColumns].sort());
});

test('detects a condition on rows that another condition binds already', async () => {
  const [tree] = await parseTrees(
    'select from users u join companies c on c.id = u.company_id and c.id = $1 where u.company_id = $1',
  );
  if (!tree) throw new Error('no tree');
  const { conditions } = readBindings(tree, catalogue);
  const needed = conditions.filter((condition) => readBindings(tree, catalogue, condition).unbound.length > 0);
  expect([conditions.length, needed.length]).toEqual([3, 0]);
});

test('rejects statements of an unknown kind', async () => {
  await expect(unbound('merge into leads using notes on false when matched then delete')).rejects.toThrow('MergeStmt');
  await expect(unbound('select from')).rejects.toThrow();
});
