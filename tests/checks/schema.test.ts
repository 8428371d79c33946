// That db/schema.sql shows what the migrations make.
import { readFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { describeSchema, schemaFile } from '../../cli/schema.ts';
import { migrate } from '../../db/client/migrate.ts';
import { dropAllDatabases, emptyDatabase, inDatabase } from '../support/databases.ts';

afterAll(dropAllDatabases);

test('db/schema.sql equals the schema of a database that the migrations set up', async () => {
  const url = await emptyDatabase();
  await migrate(url);
  // A difference means that a migration came without `make schema`.
  expect(readFileSync(schemaFile, 'utf8')).toBe(await inDatabase(url, describeSchema));
});
