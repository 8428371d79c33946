// Starts real servers for tests and ends them by their process id.
import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface TestServer {
  url: string;
  pid: number;
  /** Milliseconds from the start of the process until it listened. */
  startMilliseconds: number;
  /** The rest of its log so far, one line of JSON each. */
  output(): string;
  /** Ends it with a signal and waits. SIGTERM lets requests in flight finish. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Caches compiled code across starts, of which a run has more than a hundred. */
export const compileCache = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));

/**
 * As in make start. A larger space would save some garbage collection at the start, but cost 16,000
 * page faults of 18 µs on some machines.
 */
const serviceFlags = ['--max-semi-space-size=16'];

/** For NODE_OPTIONS: makes password hashing in a server cheap. */
export const cheapPasswords = `--import=${new URL('./cheap-passwords.ts', import.meta.url)}`;

/**
 * Returns settings of a server whose jobs run more often than in service.
 * @param mostMs the longest interval between the starts of two runs, in milliseconds
 */
export function frequentJobs(mostMs: number): Record<'NODE_OPTIONS' | 'JOB_INTERVAL_MS', string> {
  const loaded = `--import=${new URL('./frequent-jobs.ts', import.meta.url)}`;
  return { NODE_OPTIONS: `${cheapPasswords} ${loaded}`, JOB_INTERVAL_MS: String(mostMs) };
}

const ownMain = fileURLToPath(new URL('../../main.ts', import.meta.url));

interface StartOptions {
  /** An additional file for its log. */
  logFile?: string;
  /** Another program than the project's own. */
  main?: string | undefined;
  /** Flags of Node. */
  flags?: readonly string[];
  /** A command that starts the rest of its arguments in its own process. */
  wrapper?: readonly string[];
}

/**
 * Starts a server on a free port.
 * @param env settings besides the environment's. The system chooses PORT unless it is given, and
 *   passwords are cheap unless NODE_OPTIONS is given
 */
export function startServer(
  env: Record<string, string>,
  { logFile, main = ownMain, flags = serviceFlags, wrapper = [] }: StartOptions = {},
): Promise<TestServer> {
  const started = performance.now();
  const [program = process.execPath, ...parameters] = [...wrapper, process.execPath, ...flags, main];
  const child = spawn(program, parameters, {
    env: {
      PATH: process.env.PATH ?? '',
      NODE_COMPILE_CACHE: compileCache,
      NODE_OPTIONS: cheapPasswords,
      PORT: '0',
      DEMO: '0',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const file = logFile ? createWriteStream(logFile, { flags: 'a' }) : undefined;
  let output = '';
  let isListening = false;
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      file?.write(chunk);
      if (output.length < 20_000_000) output += chunk.toString();
      // Searching a growing text would copy it each time.
      const port = isListening ? undefined : /"port":(\d+),.*"msg":"listening"/.exec(output)?.[1];
      if (port) {
        isListening = true;
        resolve({
          url: `http://127.0.0.1:${port}`,
          pid: child.pid as number,
          startMilliseconds: performance.now() - started,
          output: () => output,
          stop: (signal = 'SIGTERM') => end(child, signal),
        });
      }
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${output.slice(-2000)}`)));
  });
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve(child.exitCode);
    child.on('exit', (code) => resolve(code));
    child.kill(signal);
  });
}
