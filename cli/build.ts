// Compiles the server and its commands into dist/, with the files that they read.
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '..');
const [target, unfinished] = ['dist', 'dist.new'].map((name) => join(root, name)) as [string, string];
/** Files and folders that the server finds with `import.meta.url`. */
const data = ['generated/openapi.json', 'db/migrations'];

/** Rendered documentation pages; kept for the next build, which only renders them if they changed. */
const pages = '.docs-site';
const renderer = fileURLToPath(new URL('../site/main.ts', import.meta.url));

rmSync(unfinished, { recursive: true, force: true });
try {
  // Rendered while the compiler runs.
  const rendering = promisify(execFile)(process.execPath, [renderer]);
  // By path, because two versions of the compiler are installed.
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc');
  const options = ['-p', 'tsconfig.build.json', '--outDir', unfinished, '--pretty', 'false'];
  execFileSync(process.execPath, [compiler, ...options], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  await rendering;
  for (const path of [...data, pages]) cpSync(join(root, path), join(unfinished, path), { recursive: true });
  // Replaced as a whole, so that no server starts from a partial build and no removed file remains.
  rmSync(target, { recursive: true, force: true });
  renameSync(unfinished, target);
} catch (error) {
  rmSync(unfinished, { recursive: true, force: true });
  process.stderr.write(`Building dist/ failed. ${(error as Error).message}\n`);
  process.exitCode = 1;
}
