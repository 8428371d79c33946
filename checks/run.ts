// make check: runs every check, reports each, and fails if one fails.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { areaProblems, circleProblems, untestedNouns } from './areas.ts';
import { decisionProblems, namedFileProblems } from './decisions.ts';
import { driverProblems } from './driver.ts';
import { folderProblems, headerProblems, mentionProblems, packageProblems } from './files.ts';
import { heldFunctionProblems } from './functions.ts';
import { imageProblems } from './image.ts';
import { dependencyProblems, importProblems } from './imports.ts';
import { languageProblems } from './language.ts';
import { nameProblems } from './names.ts';
import { listFolders, listPictures, readSources, type Source } from './sources.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Returns the problems; empty if there are none. */
type Check = () => Promise<string[]> | string[];

/** Runs a command whose output describes its problems. */
function command(program: string, ...parameters: string[]): Promise<string[]> {
  return new Promise((resolve) => {
    execFile(program, parameters, { cwd: root, maxBuffer: 1e8 }, (error, output, errors) => {
      resolve(error ? [`${output}\n${errors}`.trim() || error.message] : []);
    });
  });
}

/** By path, because two versions of the compiler are installed, and only one can be the command. */
function typeProblems(project: string): Promise<string[]> {
  return command('node', 'node_modules/typescript-7/bin/tsc', '-p', project, '--noEmit', '--pretty', 'false');
}

/** The output of make generate, by the Makefile variable of its folder. */
const derived = {
  generated: { at: 'generated', names: ['openapi.json', 'api.ts'] },
  sdk_generated: { at: 'sdk/src/generated', names: ['api.ts', 'operations.ts'] },
};

async function staleFiles(): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'generated-'));
  try {
    // The packages are installed, or this program would not run.
    const targets = Object.entries(derived).map(([variable, { at }]) => {
      mkdirSync(join(folder, at), { recursive: true });
      return `${variable}=${join(folder, at)}`;
    });
    const failed = await command('make', '-s', '-o', 'node_modules/.complete', 'generate', ...targets);
    if (failed.length > 0) return failed;
    return Object.values(derived)
      .flatMap(({ at, names }) => names.map((name) => join(at, name)))
      .filter((name) => readFileSync(join(folder, name), 'utf8') !== readFileSync(join(root, name), 'utf8'))
      .map((name) => `${name} is out of date: run make generate`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const readJson = (name: string) => JSON.parse(readFileSync(join(root, name), 'utf8'));
const sources = readSources(root);
const [manifest, sdkManifest] = [readJson('package.json'), readJson('sdk/package.json')];
const isInSdk = ({ path }: Source): boolean => path.startsWith('sdk/src/');

const checks: Record<string, Check> = {
  'generated/ is up to date with spec/': staleFiles,
  'the OpenAPI document follows its rules': () => command('redocly', 'lint', 'main'),
  'the code is formatted and linted': () => command('biome', 'check', '--colors=off', '.'),
  'every file, export and package is used': () => command('knip', '--no-progress', '--treat-config-hints-as-errors'),
  // sdk/ separately too, without the types of Node.
  'the types are correct': async () => [...(await typeProblems('.')), ...(await typeProblems('sdk'))],
  'imports follow the rules of their folder': () => importProblems(sources),
  'only one file uses the patched parts of the driver': () => driverProblems(sources),
  'areas follow their order, and each noun has one area and its tests': () => [
    ...areaProblems(sources),
    ...untestedNouns(sources),
  ],
  'there are no import cycles': () => circleProblems(sources),
  'no function outlives its request': () => heldFunctionProblems(sources),
  'the image contains everything that the server needs': () => imageProblems(sources),
  'imported packages are declared': () => [
    ...dependencyProblems(
      sources.filter((source) => !isInSdk(source)),
      manifest,
    ),
    ...dependencyProblems(sources.filter(isInSdk), sdkManifest),
  ],
  'every file describes its content in its first line': () => headerProblems(sources),
  'comments and texts use plain words': () => languageProblems(sources),
  'functions are named with verbs': () => nameProblems(sources),
  'no file names one machine': () => mentionProblems(sources),
  'folders have specific names': () => folderProblems(listFolders(root)),
  'pages name files that exist, and decisions name their enforcer': () => [
    ...namedFileProblems(sources, listFolders(root), listPictures(root)),
    ...decisionProblems(sources),
  ],
  'versions are exact': () => [
    ...packageProblems(manifest, readJson('package-lock.json')),
    // The SDK is tested with the packages that are installed here.
    ...packageProblems(sdkManifest, { packages: { '': { dependencies: manifest.devDependencies } } }),
  ],
};

let failures = 0;
const results = Object.entries(checks).map(([name, check]) => ({ name, problems: Promise.resolve().then(check) }));
for (const { name, problems } of results) {
  const found = await problems;
  if (found.length > 0) failures += 1;
  process.stdout.write(`${found.length > 0 ? 'FAIL' : 'pass'}  ${name}\n`);
  for (const line of found.join('\n').split('\n').filter(Boolean)) process.stdout.write(`      ${line}\n`);
}
process.stdout.write(
  failures > 0 ? `${failures} of ${results.length} checks failed\n` : `All ${results.length} checks passed\n`,
);
process.exitCode = failures > 0 ? 1 : 0;
