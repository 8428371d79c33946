// Starts the servers that are compared, each in a separate process that is ended by its id.
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../app/embedded-postgres/free-port.ts';
import { request, sendOne } from './load.ts';

export interface Side {
  name: string;
  port: number;
  pid: number;
  stop(): Promise<void>;
}

/** Starts a script of bench/ that announces its port. Its log is discarded. */
export async function startScript(name: string, file: string, env: Record<string, string> = {}): Promise<Side> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [message] = (await Promise.race([once(child, 'message'), ended(name, child)])) as [{ port: number }];
  return { name, port: message.port, pid: child.pid as number, stop: () => stop(child) };
}

const root = fileURLToPath(new URL('..', import.meta.url));
execFileSync('make', ['--silent', 'build'], { cwd: root, stdio: 'inherit' });
/**
 * The shell command of make start. Under make itself the server would be a grandchild of this
 * process.
 */
const recipe = execFileSync('make', ['--silent', '--dry-run', 'start'], { cwd: root, encoding: 'utf8' });

/** Starts the server as make start does, and waits for its first response. Its log is discarded. */
export async function startServer(name: string, env: Record<string, string>): Promise<Side & { milliseconds: number }> {
  const port = await findFreePort();
  const start = performance.now();
  const child = spawn('bash', ['-c', recipe], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', PORT: String(port), DEMO: '0', ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await Promise.race([untilHealthy(port), ended(name, child)]);
  const milliseconds = performance.now() - start;
  return { name, port, pid: child.pid as number, stop: () => stop(child), milliseconds };
}

const health = request('GET', '/v1/health', {});

async function untilHealthy(port: number): Promise<void> {
  for (;;) {
    try {
      if ((await sendOne(port, health)).status === 200) return;
    } catch {
      // Not listening yet.
    }
    await sleep(5);
  }
}

async function ended(name: string, child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit');
  throw new Error(`${name} ended with ${code} before it could be measured`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

interface Usage {
  cpuMilliseconds: number;
  residentMegabytes: number;
}

/**
 * Returns the processor time of a process and its workers in milliseconds, and their resident
 * memory. Linux only.
 */
export function readUsage(pid: number): Usage | undefined {
  const usages = [pid, ...findChildren(pid)].map(usageOfOne);
  if (usages[0] === undefined) return undefined;
  const sum = (read: (usage: Usage) => number) => usages.reduce((total, each) => total + (each ? read(each) : 0), 0);
  return {
    cpuMilliseconds: sum((each) => each.cpuMilliseconds),
    residentMegabytes: sum((each) => each.residentMegabytes),
  };
}

/**
 * Returns the processor time in milliseconds of all PostgreSQL processes that this process started;
 * NaN if there are none.
 */
export function databaseMilliseconds(): number {
  const databases = findChildren(process.pid).filter((pid) => readName(pid) === 'postgres');
  if (databases.length === 0) return Number.NaN;
  return databases.reduce((total, pid) => total + (readUsage(pid)?.cpuMilliseconds ?? 0), 0);
}

function readName(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function findChildren(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function usageOfOne(pid: number): Usage | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    // User and system time of the process, then of its ended children.
    const ticks = fields.slice(11, 15).reduce((total, field) => total + Number(field), 0);
    const resident = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return { cpuMilliseconds: ticks * 10, residentMegabytes: Number(resident) / 1024 };
  } catch {
    return undefined;
  }
}
