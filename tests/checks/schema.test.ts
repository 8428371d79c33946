// Tests that db/schema.sql matches the migrations.
import { readFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import { describeSchema, schemaFile } from '../../cli/schema.ts';
import { migrate } from '../../db/client/migrate.ts';
import { dropAllDatabases, emptyDatabase, inDatabase } from '../support/databases.ts';

afterAll(dropAllDatabases);

test('db/schema.sql equals the schema of a migrated database', async () => {
  const url = await emptyDatabase();
  await migrate(url);
  // If they differ, a migration was added without `make schema`.
  expect(readFileSync(schemaFile, 'utf8')).toBe(await inDatabase(url, describeSchema));
});
