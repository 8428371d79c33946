// Checks the order of areas, import cycles, and that each noun has one area.
import { posix } from 'node:path';
import type { Source } from './sources.ts';
import { readSyntax } from './syntax.ts';

/**
 * A file of domain or db may import its own area and earlier ones. Files outside of areas are below
 * all areas.
 */
const order: readonly string[] = [
  'service',
  'access',
  'people',
  'billing',
  'objects',
  'settings',
  'records',
  'sales',
  'reports',
  'messaging',
  'scheduling',
  'onboarding',
  'automation',
  'demo',
];
/** Layers whose folders are areas. */
const layers = new Set(['spec', 'handlers', 'services', 'jobs', 'db', 'domain']);
const ordered = new Set(['db', 'domain']);
/** Folders in these layers that are not areas. */
const otherRooms = new Set(['db/client', 'db/migrations', 'spec/rules']);

function findArea(path: string): { layer: string; area: string | undefined; noun: string } | undefined {
  const [layer = '', ...rest] = path.split('/');
  if (!layers.has(layer) || otherRooms.has(`${layer}/${rest[0]}`)) return undefined;
  const noun = (rest.at(-1) ?? '').replace(/\.\w+$/, '');
  return { layer, area: rest.length > 1 ? rest[0] : undefined, noun };
}

interface Arrow {
  from: string;
  to: string;
  line: number;
}

function listImports(sources: readonly Source[]): Arrow[] {
  return sources
    .filter(({ path }) => path.endsWith('.ts'))
    .flatMap((source) =>
      readSyntax(source)
        .imports.filter(({ name }) => name.startsWith('.'))
        .map(({ name, line }) => ({
          from: source.path,
          to: posix.join(posix.dirname(source.path), name),
          line,
        })),
    );
}

/**
 * Returns problems: folders that are not areas, imports of domain and db against the order, and
 * nouns in two areas.
 */
export function areaProblems(sources: readonly Source[]): string[] {
  const places = sources.flatMap(({ path }) => findArea(path) ?? []);
  const unknown = new Set(
    places.flatMap(({ layer, area }) => (area !== undefined && !order.includes(area) ? [`${layer}/${area}`] : [])),
  );
  const homes = new Map<string, Set<string>>();
  for (const { area, noun, layer } of places) {
    // A domain file may have the name of another area's noun. spec, handlers and db share the noun.
    if (area === undefined || layer === 'domain') continue;
    homes.set(noun, (homes.get(noun) ?? new Set()).add(area));
  }
  return [
    ...[...unknown].map((folder) => `${folder}/ is not an area (checks/areas.ts)`),
    ...listImports(sources).flatMap(({ from, to, line }) => {
      const [here, there] = [findArea(from), findArea(to)];
      if (!here || !there || !ordered.has(here.layer) || !ordered.has(there.layer) || there.area === undefined)
        return [];
      const isBefore = here.area !== undefined && order.indexOf(there.area) <= order.indexOf(here.area);
      const name = here.area ?? 'the files below all areas';
      return isBefore ? [] : [`${from}:${line} must not import ${to}: ${there.area} comes after ${name}`];
    }),
    ...[...homes]
      .filter(([, areas]) => areas.size > 1)
      .map(([noun, areas]) => `${noun} is in ${[...areas].sort().join(' and ')}: one noun, one area`),
  ];
}

/**
 * Returns nouns of the OpenAPI document that have no test file of their own in the expected place.
 */
export function untestedNouns(sources: readonly Source[]): string[] {
  const paths = new Set(sources.map(({ path }) => path));
  return sources.flatMap(({ path }) => {
    const { layer, area, noun } = findArea(path) ?? {};
    const tests = `tests/${area}/${noun}.test.ts`;
    return layer === 'spec' && area !== undefined && !paths.has(tests) ? [`${path} has no ${tests}`] : [];
  });
}

/** Returns import cycles, including types. */
export function circleProblems(sources: readonly Source[]): string[] {
  const arrows = new Map<string, string[]>();
  for (const { from, to } of listImports(sources)) arrows.set(from, [...(arrows.get(from) ?? []), to]);
  const done = new Set<string>();
  const problems: string[] = [];
  const visit = (path: string, way: readonly string[]): void => {
    const start = way.indexOf(path);
    if (start >= 0) problems.push(`${[...way.slice(start), path].join(' → ')} is an import cycle`);
    if (start >= 0 || done.has(path)) return;
    for (const next of arrows.get(path) ?? []) visit(next, [...way, path]);
    done.add(path);
  };
  for (const path of arrows.keys()) visit(path, []);
  return problems;
}
