// How the tests run: one server and one database for all files, files side by side, each test in a tenant of its own.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    globalSetup: ['tests/support/setup.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 3,
    reporters: ['default', ['json', { outputFile: '.test-data/results.json' }]],
  },
});
