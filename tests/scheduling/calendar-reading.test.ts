// Reading a calendar is limited by processor time, whatever a busy machine makes of it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const program = fileURLToPath(new URL('../support/slow-reader.ts', import.meta.url));
/** Longer than the processor time that an answer may take; as long does a busy machine leave the process without a processor. */
const stopped = 2500;

test('a calendar is read although its process stands still for longer than it may take', async () => {
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
