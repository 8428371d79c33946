// How the tests run: one server and database for all files, each test in a tenant of its own.
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files, slowest first. If one of them started last, the run would wait for it alone. */
const long = [
  'tests/isolation/isolation',
  'tests/whole/every-operation',
  'tests/messaging/sending',
  'tests/faults/feed-points',
  'tests/faults/stripe-points',
  'tests/faults/database-down',
  'tests/faults/embedded-dies',
  'tests/checks/check',
  'tests/console/screens',
  'tests/messaging/mail',
  'tests/whole/long-histories',
  'tests/runtime/unread-answers',
  'tests/sdk/languages',
  'tests/automation/workforce-runs',
  'tests/faults/',
  'tests/runtime/docs-page',
  'tests/demo/',
  'tests/scheduling/',
  'tests/whole/',
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
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
  },
});
