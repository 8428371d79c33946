// Tests the hook that checks the subjects of commits, alone and called by git.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { commitSubjectProblems } from '../../checks/commit-subject.ts';

const root = resolve(import.meta.dirname, '../..');

test.each([
  'billing: fetch the subscription before computing a change',
  'db/client: seed the pool',
  'records, sales: feed the timeline',
  "Merge branch 'main'",
  'Revert "billing: charge twice"',
  'fixup! billing: fetch the subscription',
  `billing: ${'a'.repeat(63)}`,
  'billing: fetch the subscription\n\nA body. It may be as long as it likes, and its lines may exceed the limit of subjects.',
])('accepts the subject %j', (message) => {
  expect(commitSubjectProblems(message)).toEqual([]);
});

test.each([
  ['', /Begin with the area/],
  ['Fetch the subscription', /Begin with the area/],
  ['billing:fetch', /Begin with the area/],
  ['billing: fetched the subscription', /imperative.*"fetched"/],
  ['billing: fetching the subscription', /imperative.*"fetching"/],
  ['billing: Adds a price', /imperative.*"Adds"/],
  ['billing: fetch the subscription.', /without a period/],
  [`billing: ${'a'.repeat(64)}`, /has 73 characters; at most 72/],
])('rejects the subject %j', (message, problem) => {
  expect(commitSubjectProblems(message)).toEqual([expect.stringMatching(problem)]);
});

test('git rejects a commit whose subject has no area, and accepts one that has', () => {
  const repository = mkdtempSync(join(tmpdir(), 'commit-subject-'));
  const git = (...parameters: string[]) =>
    spawnSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@example.com', ...parameters], {
      cwd: repository,
      encoding: 'utf8',
      env: { ...process.env, GIT_WORK_TREE: root, GIT_DIR: join(repository, '.git') },
    });
  try {
    git('init', '--quiet');
    git('config', 'core.hooksPath', join(root, 'checks/git-hooks'));
    const rejected = git('commit', '--allow-empty', '--message', 'Fetch the subscription');
    expect(rejected.stderr).toContain('Begin with the area');
    expect(rejected.status).toBe(1);
    expect(git('commit', '--allow-empty', '--message', 'billing: fetch the subscription').status).toBe(0);
  } finally {
    rmSync(repository, { recursive: true });
  }
});
