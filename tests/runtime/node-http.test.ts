// The parts of node:http that a server loads.
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { expectStatus, useServer } from '../support/client.ts';
import { besideCommon } from '../support/databases.ts';
import { modulesIn, recordModules } from '../support/loaded-modules.ts';
import { createRecord, lead } from '../support/records.ts';
import { startServer } from '../support/servers.ts';
import { newTenant } from '../support/tenants.ts';

test('a server answers requests without loading fetch', async () => {
  const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `modules-${randomUUID()}`);
  const server = await startServer({
    ...besideCommon(),
    DATA_DIR: folder,
    METRICS_PORT: '0',
    NODE_OPTIONS: recordModules,
  });
  try {
    useServer(server.url);
    const { key } = await newTenant();
    await createRecord(key, 'leads', lead());
    await expectStatus(200, 'GET', '/v1/search', { key, query: { q: 'lead' } });
  } finally {
    useServer(undefined);
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  const modules = modulesIn(server.output());
  expect(modules).toContain('NativeModule _http_server');
  expect(modules.filter((name) => name.includes('undici'))).toEqual([]);
});
