// The commit-msg hook: rejects a subject that is not `area: imperative summary`.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Longer subjects are cut off by `git log --oneline` and by web pages. */
const maxLength = 72;

/** Git writes these subjects itself. */
const automatic = /^(Merge |Revert "|fixup! |squash! |amend! )/;

/** First words of summaries that describe instead of command. */
const notImperative = /^(\w+(ed|ing)|adds|fixes|removes|changes|updates|moves|renames|makes|uses)$/i;

/** Imperatives that end like a past tense or a participle. */
const imperativeAnyway = /^(bring|embed|exceed|feed|need|proceed|seed|shed|speed|string)$/i;

/** Returns what is wrong with the subject of a commit message; empty if nothing is. */
export function commitSubjectProblems(message: string): string[] {
  const [subject = ''] = message.split('\n');
  if (automatic.test(subject)) return [];
  const problems: string[] = [];
  if (subject.length > maxLength) problems.push(`The subject has ${subject.length} characters; at most ${maxLength}.`);
  const [, summary] = /^[a-z][a-z0-9/, .-]*: (\S.*)$/.exec(subject) ?? [];
  if (summary === undefined) {
    problems.push('Begin with the area: "billing: fetch the subscription before computing a change".');
    return problems;
  }
  const [verb = ''] = summary.split(' ');
  if (notImperative.test(verb) && !imperativeAnyway.test(verb))
    problems.push(`Begin the summary with an imperative ("add", "fix", "remove"), not "${verb}".`);
  if (summary.endsWith('.')) problems.push('End the subject without a period.');
  return problems;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = commitSubjectProblems(readFileSync(process.argv[2] ?? '', 'utf8'));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
