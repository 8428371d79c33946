// Installs the packages and shows the progress. Plain JavaScript for the caller's Node.
// Usage: node cli/install.js [seconds between two lines]
import { execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Megabytes, measured on Linux (x64) in a clean clone with an empty npm cache. */
const size = { onDisk: 760, downloaded: 310 };

const [seconds = '5'] = process.argv.slice(2);
const say = (text) => process.stderr.write(`${text}\n`);

/** Returns true if a package supports this machine: `["linux"]`, or `["!win32"]`. */
const fits = (allowed, value) =>
  allowed === undefined || allowed.includes(value) || allowed.some((each) => each[0] === '!' && each !== `!${value}`);

const libc = process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl';
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const expected = Object.entries(packages)
  .filter(([path, { os, cpu, libc: libraries }]) => {
    const isOurs = fits(os, process.platform) && fits(cpu, process.arch);
    return path !== '' && isOurs && (process.platform !== 'linux' || fits(libraries, libc));
  })
  .map(([path]) => join(path, 'package.json'));

// Rounded, because npm skips some optional packages.
const total = Math.round(expected.length / 10) * 10;

const started = Date.now();
const elapsed = () => Math.round((Date.now() - started) / 1000);
say(`Installing about ${total} packages in node_modules, including those for tests: ${size.onDisk} MB.`);
say(`npm downloads up to ${size.downloaded} MB that its cache lacks. This happens once and takes a minute or two.`);
const timer = setInterval(() => {
  const found = expected.filter((path) => existsSync(path)).length;
  if (found === 0) return say(`  ${elapsed()} s: npm resolves the packages`);
  // The largest packages come last. Without du, only the number of packages is shown.
  execFile('du', ['-sm', 'node_modules'], (error, printed) => {
    const megabytes = error ? '' : `, ${Number.parseInt(printed, 10)} of ${size.onDisk} MB`;
    if (!isDone) say(`  ${elapsed()} s: ${found} of ${total} packages${megabytes}`);
  });
}, Number(seconds) * 1000);
let isDone = false;

const options = ['install', '--no-save', '--no-progress', '--loglevel=error'];
const npm = spawn('npm', options, { stdio: ['ignore', 'ignore', 'inherit'], shell: process.platform === 'win32' });
npm.on('error', (error) => finish(`npm could not be started: ${error.message}`));
npm.on('close', (code) => finish(code === 0 ? undefined : 'npm failed, see above. Run the same command again.'));

/** @param problem why it failed; undefined if it succeeded */
function finish(problem) {
  clearInterval(timer);
  isDone = true;
  say(problem ?? `Installed in ${elapsed()} s.`);
  process.exitCode = problem === undefined ? 0 : 1;
}
