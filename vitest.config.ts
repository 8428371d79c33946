// How the tests run: one server and database for all files, each test in a tenant of its own.
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take longest, the longest first: started last, one of them would end the run alone. */
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
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = long.findIndex((beginning) => moduleId.includes(beginning));
      return rank < 0 ? long.length : rank;
    };
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}

/**
 * Files that rely on answers within a tenth of a second, as a Redis must give them, or that lock what
 * all requests need. Other tests beside them would be the fault.
 */
const alone = ['tests/faults/redis-down.test.ts', 'tests/billing/quota.test.ts'];

const shared = {
  setupFiles: ['tests/support/each-file.ts'],
  // What was found instead is told whole: it may happen once, on a machine that is far away.
  chaiConfig: { truncateThreshold: 2000 },
  // Far beyond what anything takes here: what ends late on a busy machine is right all the same.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // As tests/support/patience.ts has it for other ways of waiting.
  expect: { poll: { timeout: 60_000, interval: 20 } },
  // Files share a process, and what it has loaded: each has tenants of its own, and leaves nothing else behind.
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
