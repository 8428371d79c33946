// Compiles the server and its commands into dist/, with the files that they read.
import { execFileSync } from 'node:child_process';
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const [target, unfinished] = ['dist', 'dist.new'].map((name) => join(root, name)) as [string, string];
/** Files and folders that the server finds with `import.meta.url`. */
const data = ['generated/openapi.json', 'db/migrations'];

rmSync(unfinished, { recursive: true, force: true });
try {
  // By path, because two versions of the compiler are installed.
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc');
  const options = ['-p', 'tsconfig.build.json', '--outDir', unfinished, '--pretty', 'false'];
  execFileSync(process.execPath, [compiler, ...options], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  for (const path of data) cpSync(join(root, path), join(unfinished, path), { recursive: true });
  // Replaced as a whole, so that no server starts from a partial build and no removed file remains.
  rmSync(target, { recursive: true, force: true });
  renameSync(unfinished, target);
} catch (error) {
  rmSync(unfinished, { recursive: true, force: true });
  process.stderr.write(`Building dist/ failed. ${(error as Error).message}\n`);
  process.exitCode = 1;
}
