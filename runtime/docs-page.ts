// The documentation page: Redoc from our own package, the document inside, nothing loaded from elsewhere.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Document } from './document.ts';
import type { Page } from './server.ts';

const theme = {
  colors: { primary: { main: '#1f5eff' } },
  typography: {
    fontSize: '15px',
    fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
    headings: { fontFamily: 'inherit' },
    code: { fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace' },
  },
  sidebar: { width: '280px' },
};

/** The pages under /docs, by path. */
export function docsPages(document: Document): Record<string, Page> {
  const script = readFileSync(createRequire(import.meta.url).resolve('redoc/bundles/redoc.standalone.js'));
  const title = document.json.info.title;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>body { margin: 0 } a[href*="redocly.com/redoc"] { display: none }</style>
</head>
<body>
<div id="docs"></div>
<script src="/docs/redoc.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;
  const start = `Redoc.init('/v1/openapi.json', ${JSON.stringify({
    theme,
    hideDownloadButton: false,
    expandResponses: '200,201',
    requiredPropsFirst: true,
    jsonSampleExpandLevel: 4,
    pathInMiddlePanel: true,
    disableSearch: false,
  })}, document.getElementById('docs'));\n`;
  // Redoc styles by inserted elements; everything else may come from this server only.
  const policy =
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  const page = (contentType: string, body: string | Buffer): Page => ({
    contentType,
    body,
    headers: { 'content-security-policy': policy, 'cache-control': 'public, max-age=300' },
  });
  return {
    '/docs': page('text/html; charset=utf-8', html),
    '/docs/redoc.js': page('text/javascript; charset=utf-8', script),
    '/docs/start.js': page('text/javascript; charset=utf-8', start),
  };
}
