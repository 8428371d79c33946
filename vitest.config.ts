// How the tests run: one server and database for all files, each test in a tenant of its own.
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files, slowest first. If one of them started last, the run would wait for it alone. */
const long = [
  'tests/isolation/isolation',
  'tests/whole/every-operation',
  'tests/faults/feed-points',
  'tests/faults/exports-killed',
  'tests/records/exports',
  'tests/faults/database-down',
  'tests/faults/network',
  'tests/faults/embedded-dies',
  'tests/faults/stripe-points',
  'tests/checks/check',
  'tests/runtime/rate-limits',
  'tests/runtime/docs-site',
  'tests/access/requests',
  'tests/runtime/unread-answers',
  'tests/checks/image',
  'tests/messaging/sending',
  'tests/console/screens',
  'tests/faults/merge-points',
  'tests/whole/every-dry-run',
  'tests/scheduling/calendars',
  'tests/automation/workforce-runs',
  'tests/whole/long-histories',
  'tests/whole/bulk-data',
  'tests/runtime/docs-page',
  'tests/runtime/slow-clients',
  'tests/messaging/mail',
  'tests/sdk/languages',
  'tests/faults/',
  'tests/demo/',
  'tests/whole/',
  'tests/scheduling/',
  'tests/access/',
  'tests/billing/',
  'tests/messaging/',
  'tests/runtime/',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const getRank = ({ moduleId }: TestSpecification): number => {
      const rank = long.findIndex((beginning) => moduleId.includes(beginning));
      return rank < 0 ? long.length : rank;
    };
    return (await super.sort(files)).sort((a, b) => getRank(a) - getRank(b));
  }
}

/**
 * Files that need responses within a tenth of a second, as from Redis, or that lock rows that every request needs.
 * Tests that run at the same time would make them fail.
 */
const alone = ['tests/faults/redis-down.test.ts', 'tests/billing/quota.test.ts'];

const shared = {
  setupFiles: ['tests/support/each-file.ts'],
  // Show long values in full: a failure may happen only once, on a machine that you cannot reach.
  chaiConfig: { truncateThreshold: 2000 },
  // Far longer than any test takes: a slow machine must not fail a correct test.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // The same patience as in tests/support/patience.ts.
  expect: { poll: { timeout: 60_000, interval: 20 } },
  // Files share a process and its loaded modules. Each file creates its own tenants and leaves nothing else behind.
  isolate: false,
};

export default defineConfig({
  test: {
    globalSetup: ['tests/support/setup.ts'],
    sequence: { sequencer: LongestFirst },
    reporters: ['default', ['json', { outputFile: '.test-data/results.json' }]],
    projects: [
      {
        test: {
          ...shared,
          name: 'together',
          include: ['tests/**/*.test.ts'],
          exclude: alone,
          // More would shorten a run, but tests of overload and of killed servers then fail on two busy processors.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
  },
});
