// Reading a calendar is limited by processor time, independent of the load of the machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const program = fileURLToPath(new URL('../support/slow-reader.ts', import.meta.url));
/**
 * Longer than the processor time for a response. A busy machine may suspend a process this long.
 */
const stopped = 2500;

test('reads a calendar although its process is suspended for longer than the limit', async () => {
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const said: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    said.push(line);
    if (line !== 'begun') continue;
    child.kill('SIGSTOP');
    await sleep(stopped);
    child.kill('SIGCONT');
  }
  await ended;
  expect(said).toEqual(['begun', '20 busy times']);
});
