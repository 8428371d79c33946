// Serves the documentation: the pages that site/ renders, and the whole reference on one page.
// The latter is Redoc from our own package, and is also written as one file for publishing.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from '../http/server.ts';
import { options, style } from './docs-theme.ts';
import type { Document } from './document.ts';
import { PreparedBody } from './prepared-body.ts';

/**
 * Base URL in the samples of the bundled OpenAPI document. A page replaces it with the URL of its
 * own server.
 */
const sampleAddress = 'http://127.0.0.1:8080';

/**
 * Redoc inserts style elements and searches in a worker. Everything else must come from this
 * server.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  'worker-src blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The rendered pages run without Redoc, and have their styles in a file. */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Runs in the browser. */
const start = `fetch('/v1/openapi.json')
  .then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error('The server responded with status ' + answer.status))))
  .then((text) => {
    const shown = JSON.parse(text.replaceAll(${JSON.stringify(sampleAddress)}, location.origin));
    shown.servers = [{ url: location.origin }];
    Redoc.init(shown, ${JSON.stringify({ ...options, downloadUrls: [{ title: 'openapi.json', url: '/v1/openapi.json' }] })}, document.getElementById('docs'));
  })
  .catch((error) => {
    document.querySelector('#docs > p').textContent = 'The documentation could not be loaded. ' + error.message + '.';
  });
`;

/** The rendered pages, as site/main.ts lists them in pages.json. */
export interface PageList {
  /** Identifies the sources that they were rendered from. */
  key: string;
  pages: Record<string, { file: string; contentType: string }>;
}

/** Beside the sources as in the build; `make build` and the tests render into it. */
const siteFolder = fileURLToPath(new URL('../../.docs-site/', import.meta.url));

/**
 * Returns the pages under /docs, by path.
 * @param baseUrl returns the URL of this server, which the samples name
 */
export function buildDocsPages(document: Document, baseUrl: () => string): Record<string, Page> {
  const scripts = '<script src="/docs/redoc.js"></script>\n<script src="/docs/start.js"></script>';
  const whole = page('text/html; charset=utf-8', html(document.json, scripts));
  return {
    '/docs': whole,
    '/docs/all': whole,
    ...renderedPages(baseUrl),
    '/docs/redoc.js': page('text/javascript; charset=utf-8', redoc()),
    '/docs/start.js': page('text/javascript; charset=utf-8', start),
    [deprecationsPath]: page('text/html; charset=utf-8', deprecations(document)),
  };
}

/** Returns no pages if none were rendered; /docs is then the whole reference. */
function renderedPages(baseUrl: () => string): Record<string, Page> {
  let list: PageList;
  try {
    list = JSON.parse(readFileSync(join(siteFolder, 'pages.json'), 'utf8'));
  } catch {
    return {};
  }
  const read = (file: string): string =>
    readFileSync(join(siteFolder, file), 'utf8').replaceAll(sampleAddress, baseUrl().replace(/\/$/, ''));
  return Object.fromEntries(
    Object.entries(list.pages).map(([path, { file, contentType }]) => [
      path,
      // Each is read when it is first requested, because most processes serve few of them.
      { contentType, headers: buildHeaders(pagePolicy), body: new PreparedBody(() => read(file)) },
    ]),
  );
}

/**
 * Returns the page as one self-contained file.
 * @param address base URL of the described server
 */
export function buildDocsFile(json: Document['json'], address: string): string {
  const shown = { ...json, servers: [{ url: address }] };
  // Only this sequence could end a script element early.
  const inline = (script: string) => `<script>${script.replaceAll('</script', '<\\/script')}</script>`;
  const text = JSON.stringify(shown).replaceAll(sampleAddress, address).replaceAll('<', '\\u003c');
  const init = `Redoc.init(${text}, ${JSON.stringify(options)}, document.getElementById('docs'));`;
  return html(json, `${inline(redoc())}\n${inline(init)}`);
}

function page(contentType: string, content: string): Page {
  return { contentType, body: new PreparedBody(content), headers: buildHeaders(policy) };
}

const buildHeaders = (allowed: string): Record<string, string> => ({
  'content-security-policy': allowed,
  'cache-control': 'public, max-age=300',
});

/** Target of the links in deprecation headers, unless the web app has this page. */
const deprecationsPath = '/docs/deprecations';

/** Renders all deprecated parameters and fields, each under the anchor in its link. */
function deprecations(document: Document): string {
  const sections = document.operations.flatMap((operation) =>
    operation.deprecatedUses.map((use) => {
      const [since, sunset] = [use.since, use.sunset].map((day) => day.toISOString().slice(0, 10));
      const anchor = escapeHtml(new URL(use.link).hash.slice(1));
      return `<h2 id="${anchor}">${escapeHtml(use.name)} of ${operation.method} ${escapeHtml(operation.path)}</h2>
<p>Deprecated since ${since}; stops working on ${sunset}. ${escapeHtml(use.note).replace(/`([^`]+)`/g, '<code>$1</code>')}</p>`;
    }),
  );
  const { title } = document.json.info;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Deprecated forms – ${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 45em; margin: 2em auto; padding: 0 1em }</style>
</head>
<body>
<h1>Deprecated forms</h1>
<p>They work until the given date. Their responses have the headers Deprecation, Sunset and Link.</p>
${sections.join('\n')}
<p><a href="/docs">Documentation</a></p>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function redoc(): string {
  const script = readFileSync(createRequire(import.meta.url).resolve('redoc/bundles/redoc.standalone.js'), 'utf8');
  // Removes two external requests: the source map, which is not served, and the logo of Redocly.
  return script
    .replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')
    .replaceAll('https://cdn.redoc.ly/redoc/logo-mini.svg', 'data:,');
}

function html(json: Document['json'], scripts: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${json.info.title}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="docs"><p>Loading the documentation …</p><noscript><p>This page requires JavaScript. The OpenAPI document is at <a href="/v1/openapi.json">/v1/openapi.json</a>.</p></noscript></div>
${scripts}
</body>
</html>
`;
}
