// Builds the HTML of the documentation pages from what Redoc renders.
import {
  type Contents,
  type Declared,
  type Group,
  type Guide,
  listAnchors,
  type Operation,
  type Tag,
  toSectionAnchor,
  toTagAnchor,
} from './contents.ts';
import type { Json, Renderer } from './redoc.ts';
import { reduce } from './reduce.ts';
import { createElement, type Element, escapeHtml, findAll, hasClass, type Node, write } from './tree.ts';

export interface Site {
  contents: Contents;
  json: Json;
  renderer: Renderer;
}

/** Returns the start page, which lists all pages. */
export async function renderStart({ contents, json, renderer }: Site): Promise<string> {
  const list = (pages: readonly { path: string; title: string; summary: string }[]): string =>
    pages.map(({ path, title, summary }) => `- [${title}](${path})${summary ? `: ${summary}` : ''}`).join('\n');
  const groups = contents.groups.map((group) => ({ ...group, summary: summarizeGroup(group) }));
  const description = [
    contents.introduction,
    '## Guides',
    list(contents.guides),
    '## API reference',
    list(groups),
    '## For programs',
    `- [OpenAPI document](/v1/openapi.json): the API in full, for code generators and other tools
- [llms.txt](/llms.txt): these pages as Markdown, for language models
- [All on one page](/docs/all): the whole reference, with every schema`,
  ].join('\n\n');
  const nodes = await renderer.render(extractProse(json, description));
  const body = reduce(extractBody(nodes), (anchor) => `#${anchor}`);
  return shell(contents, { path: '/docs', title: contents.title }, [heading(contents.title), ...body], 'start prose');
}

export const summarizeGroup = ({ tags }: Group): string => tags.map(({ name }) => name.toLowerCase()).join(', ');

/** Returns a document of prose: without operations, and with the components that prose can show. */
function extractProse(json: Json, description: string): Json {
  const { securitySchemes = {} } = json.components ?? {};
  const prose = { ...json, info: { ...json.info, description }, components: { securitySchemes } };
  return Object.assign(prose, { paths: {}, tags: [], 'x-tagGroups': [] });
}

export async function renderGuide(site: Site, guide: Guide): Promise<string> {
  const { contents, json, renderer } = site;
  const [first, ...others] = guide.sections;
  // The title of the page stands for the heading of a first section that is alone or has the same name.
  const isTitled = others.length === 0 || first?.heading === guide.title;
  const description = guide.sections
    .map((section) => (isTitled && section === first ? '' : `## ${section.heading}\n\n`) + section.text)
    .join('\n\n');
  const nodes = await renderer.render(extractProse(json, markComments(description)));
  const body = reduce(extractBody(nodes), toAddress(contents, guide.path));
  const title = heading(guide.title, isTitled ? toSectionAnchor(first?.heading ?? '') : undefined);
  return shell(contents, guide, [title, markdownLink(guide.path), ...body], 'prose').replaceAll(commentMark, '');
}

/** A character for private use, which no guide contains. */
const commentMark = '\uE000';

/**
 * Marks comments of shell samples. Redoc would take a line in a fence that begins with # for a
 * heading, and end the first section of a page there.
 */
function markComments(text: string): string {
  let isFenced = false;
  return text
    .split('\n')
    .map((line) => {
      if (/^\s*```/.test(line)) isFenced = !isFenced;
      return isFenced && line.startsWith('#') ? `${commentMark}${line}` : line;
    })
    .join('\n');
}

export async function renderGroup(site: Site, group: Group): Promise<string> {
  const { contents, json, renderer } = site;
  const nodes = await renderer.render(extractGroup(json, group));
  const operations = group.tags.flatMap((tag) => tag.operations);
  const notes = new Map(
    operations.map(({ id, declared }) => {
      const languages = (declared['x-codeSamples'] ?? []).map(({ lang }) => lang);
      return [id, { languages, security: declared.security ?? [] }];
    }),
  );
  const body = reduce(
    nodes.filter((node) => findAll([node], (each) => hasClass(each, 'api-info')).length === 0),
    toAddress(contents, group.path),
    notes,
  );
  return shell(contents, group, [heading(group.title), markdownLink(group.path), ...body], 'reference');
}

/** Returns the OpenAPI document with the operations of one group only. */
function extractGroup(json: Json, group: Group): Json {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { path, method, declared } of group.tags.flatMap((tag) => tag.operations)) {
    const { parameters } = (json.paths?.[path] ?? {}) as { parameters?: object[] };
    paths[path] = {
      ...(parameters ? { parameters } : {}),
      ...paths[path],
      [method]: withoutSharedErrors(json, declared),
    };
  }
  const tags = group.tags.map((tag) => ({ name: tag.name, description: describeTag(tag) }));
  const part = { ...json, info: { ...json.info, description: '' }, paths, tags, 'x-tagGroups': [] };
  return { ...part, components: usedComponents(json, paths) } as unknown as Json;
}

/**
 * Leaves only the description of errors and proposals, which operations share. Their samples are the
 * same for all operations, and would be more than half of a page.
 */
function withoutSharedErrors(json: Json, declared: Declared): Declared {
  const shared = (json.components?.responses ?? {}) as Record<string, { description?: string }>;
  const responses = Object.entries(declared.responses ?? {}).map(([status, response]) => {
    const name = (response as { $ref?: string }).$ref?.split('/').at(-1);
    const isShared = (/^[45]/.test(status) && name !== undefined) || name === 'Proposed';
    return [status, isShared ? { description: shared[name]?.description ?? '' } : response];
  });
  return { ...declared, responses: Object.fromEntries(responses) };
}

/** Returns the components that operations refer to, also through others. Redoc reads all it gets. */
function usedComponents(json: Json, paths: object): Record<string, Record<string, unknown>> {
  const { securitySchemes = {}, ...all } = (json.components ?? {}) as Record<string, Record<string, unknown>>;
  const used: Record<string, Record<string, unknown>> = { securitySchemes };
  const waiting: unknown[] = [paths];
  while (waiting.length > 0) {
    const references = JSON.stringify(waiting.pop()).matchAll(/"\$ref":"#\/components\/(\w+)\/([\w.-]+)"/g);
    for (const [, kind = '', name = ''] of references) {
      used[kind] ??= {};
      if (name in used[kind]) continue;
      used[kind][name] = all[kind]?.[name];
      waiting.push(used[kind][name]);
    }
  }
  return used;
}

/** Returns the introduction of a tag, with links to its guides instead of their text. */
export function describeTag({ introduction, guides }: Tag): string {
  const links = guides.map(({ path, title }) => `[${title}](${path})`).join(', ');
  return [introduction, links && `Guide: ${links}.`].filter(Boolean).join('\n\n');
}

function toAddress(contents: Contents, path: string): (anchor: string) => string {
  const anchors = listAnchors(contents);
  // A heading inside of a section has an anchor on its own page only.
  return (anchor) => (anchors.get(anchor) ?? `#${anchor}`).replace(`${path}#`, '#');
}

/** Returns a rendered document without the title, version and license at its beginning. */
function extractBody(nodes: readonly Node[]): Node[] {
  return nodes.flatMap((node) => {
    const [info] = findAll([node], (each) => hasClass(each, 'api-info'));
    if (!info) return [node];
    return findAll(info.children, (each) => each.attributes.get('data-role') === 'redoc-description');
  });
}

const heading = (title: string, anchor?: string): Element =>
  createElement('h1', anchor === undefined ? {} : { id: anchor }, [escapeHtml(title)]);

const markdownLink = (path: string): Element =>
  createElement('p', { class: 'formats' }, [createElement('a', { href: `${path}.md` }, ['Markdown version'])]);

interface Current {
  path: string;
  title: string;
  summary?: string;
}

function shell(contents: Contents, current: Current, body: readonly Node[], kind: string): string {
  const title = current.path === '/docs' ? contents.title : `${current.title} – ${contents.title}`;
  const description = current.summary ? `\n<meta name="description" content="${escapeHtml(current.summary)}">` : '';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>${description}
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/site.css">
<script src="/docs/site.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="home" href="/docs">${escapeHtml(contents.title)}</a>
<div class="search" role="search">
<input type="search" id="search" placeholder="Search" aria-label="Search the documentation" role="combobox" aria-expanded="false" aria-controls="results" autocomplete="off">
<ul id="results" role="listbox" aria-label="Results" hidden></ul>
</div>
<button type="button" id="menu" aria-expanded="false" aria-controls="pages">Menu</button>
</header>
<nav id="pages" aria-label="Documentation">
${menu(contents, current)}
</nav>
<main id="main" class="${kind}" tabindex="-1">
<noscript><p class="note">Without JavaScript, this page shows no search, no other languages and no schemas of responses. The Markdown version has them all.</p></noscript>
${write(body)}
</main>
</body>
</html>
`;
}

function menu({ guides, groups }: Contents, current: Current): string {
  const entry = ({ path, title }: Current): string =>
    `<a href="${path}"${path === current.path ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a>`;
  const guideEntries = guides.map((guide) => `<li>${entry(guide)}</li>`).join('');
  const groupEntries = groups
    .map((group) => `<li>${entry(group)}${group.path === current.path ? operationMenu(group) : ''}</li>`)
    .join('');
  return `<h2>Guides</h2><ul>${guideEntries}</ul>
<h2>API reference</h2><ul>${groupEntries}<li><a href="/docs/all">All on one page</a></li></ul>`;
}

function operationMenu({ tags }: Group): string {
  const operationEntry = ({ id, method, declared }: Operation): string =>
    `<li><a href="#operation/${id}"><span class="method ${method}">${method === 'delete' ? 'del' : method}</span>${escapeHtml(declared.summary ?? id)}</a></li>`;
  return tags
    .map(
      (tag) =>
        `<a class="tag" href="#${toTagAnchor(tag.name)}">${escapeHtml(tag.name)}</a><ul>${tag.operations.map(operationEntry).join('')}</ul>`,
    )
    .join('');
}
