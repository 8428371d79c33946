// Reads the files of the project for the checks.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

export interface Source {
  /** Relative to the project's root, with slashes. */
  path: string;
  text: string;
}

/** Folders that are installed, generated at run time, or not ours. */
const left = new Set(['node_modules', '.git', '.data', '.test-data', 'coverage', 'dist', '.docs-site']);
const textFile = /(\.(ts|js|json|md|sql|ya?ml|sh|toml|patch)|^(Makefile|Dockerfile|LICENSE|run|\.[a-z]+))$/;

/** Returns every folder below root, relative to it and with slashes. */
export function listFolders(root: string, at = root): string[] {
  return readdirSync(at, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !left.has(entry.name))
    .flatMap(({ name }) => [toSlashes(relative(root, join(at, name))), ...listFolders(root, join(at, name))]);
}

/** Returns every text file below root. */
export function readSources(root: string): Source[] {
  return listFiles(root, textFile).map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Returns the path of every picture below root. */
export const listPictures = (root: string): string[] => listFiles(root, /\.(png|svg)$/);

const listFiles = (root: string, wanted: RegExp): string[] =>
  ['', ...listFolders(root)].flatMap((folder) =>
    readdirSync(join(root, folder), { withFileTypes: true })
      .filter((entry) => entry.isFile() && wanted.test(entry.name) && !left.has(entry.name))
      .map(({ name }) => (folder === '' ? name : `${folder}/${name}`)),
  );

const toSlashes = (path: string): string => path.split(sep).join('/');
