// Renders the documentation pages into a folder, unless it already has those of the same sources.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PageList } from '../runtime/openapi/docs-page.ts';
import { readContents } from './contents.ts';
import { buildGroupMarkdown, buildGuideMarkdown, buildLlmsText, startMarkdown } from './markdown.ts';
import { renderGroup, renderGuide, renderStart } from './pages.ts';
import { createRenderer, type Json } from './redoc.ts';
import { buildSearchIndex } from './search.ts';
import { buildStyleSheet } from './style.ts';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const target = at('../.docs-site');
const document = readFileSync(at('../generated/openapi.json'), 'utf8');

const types = {
  html: 'text/html; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
};

const key = hashSources();
if (readKey() !== key) await build();

async function build(): Promise<void> {
  const json = JSON.parse(document) as Json;
  const site = { contents: readContents(json), json, renderer: createRenderer() };
  const { contents, renderer } = site;
  const pages = new Map<string, string>();
  pages.set('/docs', await renderStart(site));
  pages.set('/docs.md', startMarkdown(contents));
  for (const guide of contents.guides) {
    pages.set(guide.path, await renderGuide(site, guide));
    pages.set(`${guide.path}.md`, buildGuideMarkdown(contents, guide, json));
  }
  for (const group of contents.groups) {
    pages.set(group.path, await renderGroup(site, group));
    pages.set(`${group.path}.md`, buildGroupMarkdown(contents, group, json));
  }
  pages.set('/llms.txt', buildLlmsText(contents, json));
  pages.set('/docs/search.json', JSON.stringify(buildSearchIndex(contents)));
  pages.set('/docs/site.css', buildStyleSheet(renderer.style()));
  pages.set('/docs/site.js', readFileSync(at('browser.js'), 'utf8'));
  save(pages);
}

/** Writes all files, or none: processes that read the folder never see a part of them. */
function save(pages: ReadonlyMap<string, string>): void {
  const unfinished = `${target}.${process.pid}`;
  const list: PageList['pages'] = {};
  for (const [path, text] of pages) {
    const extension = (/\.(\w+)$/.exec(path)?.[1] ?? 'html') as keyof typeof types;
    const file = `${path.slice(1).replaceAll('/', '.')}${extension === 'html' ? '.html' : ''}`;
    list[path] = { file, contentType: types[extension] };
    mkdirSync(unfinished, { recursive: true });
    writeFileSync(join(unfinished, file), text);
  }
  writeFileSync(join(unfinished, 'pages.json'), JSON.stringify({ key, pages: list } satisfies PageList));
  rmSync(target, { recursive: true, force: true });
  renameSync(unfinished, target);
}

function readKey(): string | undefined {
  try {
    return (JSON.parse(readFileSync(join(target, 'pages.json'), 'utf8')) as PageList).key;
  } catch {
    return undefined;
  }
}

/** Returns a hash of everything that the pages are made from. */
function hashSources(): string {
  const hash = createHash('sha256').update(document);
  for (const folder of [at('.'), at('../runtime/pages')])
    for (const name of readdirSync(folder).sort()) hash.update(readFileSync(join(folder, name)));
  hash.update(readFileSync(at('../runtime/openapi/docs-theme.ts')));
  const redoc = createRequire(import.meta.url).resolve('redoc/package.json');
  return hash.update(readFileSync(join(dirname(redoc), 'package.json'))).digest('hex');
}
