// Records which operations and statuses tests have seen, and rejects a share below the target.
import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { operations } from './document.ts';

/** The missing statuses are errors that a public read cannot return. */
const agreedShare = 0.95;

/** What this worker has recorded already. */
const noted = new Set<string>();

/** Records a response. Each test worker writes its own file. */
export function noteAnswer(folder: string, operationId: string, status: number): void {
  const line = `${operationId} ${status}\n`;
  if (noted.has(line)) return;
  noted.add(line);
  appendFileSync(join(folder, `${process.pid}.txt`), line);
}

/** Returns false if the run names test files. */
export function isWholeRun(): boolean {
  return !process.argv.slice(2).some((argument) => /tests\/|\.test/.test(argument));
}

/**
 * Prints the table.
 * @returns false if an operation was never called, or too few declared statuses were seen
 */
export function reportCoverage(folder: string): boolean {
  const seen = new Set(readdirSync(folder).flatMap((file) => readFileSync(join(folder, file), 'utf8').split('\n')));
  if (!isWholeRun()) return true;
  let declared = 0;
  let exercised = 0;
  let operationsSeen = 0;
  const lines: string[] = [];
  for (const operation of operations) {
    // Tests cannot provoke a 500. Every operation declares it, and no response may have it.
    const statuses = operation.statuses.filter((status) => status !== '500');
    const hit = statuses.filter((status) => seen.has(`${operation.id} ${status}`));
    declared += statuses.length;
    exercised += hit.length;
    if (hit.length > 0) operationsSeen += 1;
    const missed = statuses.filter((status) => !hit.includes(status));
    lines.push(
      `  ${operation.id.padEnd(34)} ${hit.join(' ')}${missed.length > 0 ? `   not seen: ${missed.join(' ')}` : ''}`,
    );
  }
  const share = exercised / declared;
  process.stdout.write(
    `\nOperations and the declared statuses that the tests saw (500 left out):\n${lines.join('\n')}\n`,
  );
  process.stdout.write(
    `  ${operationsSeen} of ${operations.length} operations, ${exercised} of ${declared} statuses (${Math.round(share * 100)} %)\n`,
  );
  return operationsSeen === operations.length && share >= agreedShare;
}
