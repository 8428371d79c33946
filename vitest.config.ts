// How the tests run: one server and database for all files, each test in a tenant of its own.
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders whose files take longest, the longest first; they are started before all others. */
const long = [
  ...['tests/isolation/', 'tests/whole/', 'tests/faults/', 'tests/objects/filters'],
  ...['tests/runtime/', 'tests/messaging/mail', 'tests/checks/'],
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = long.findIndex((folder) => moduleId.includes(folder));
      return rank < 0 ? long.length : rank;
    };
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    globalSetup: ['tests/support/setup.ts'],
    setupFiles: ['tests/support/each-file.ts'],
    // What was found instead is told whole: it may happen once, on a machine that is far away.
    chaiConfig: { truncateThreshold: 2000 },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // Files share a process, and what it has loaded: each has tenants of its own, and leaves nothing else behind.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', ['json', { outputFile: '.test-data/results.json' }]],
  },
});
