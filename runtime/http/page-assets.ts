// Serves the style sheets and scripts of pages.
import { PreparedBody } from '../openapi/prepared-body.ts';
import type { Asset } from '../pages/assets.ts';
import type { Page } from './server.ts';

/**
 * Returns the responses for assets by path. Browsers keep them for an hour and not longer: while
 * servers of two versions run, one can answer a request for the other's version with its own.
 */
export const serveAssets = (assets: readonly Asset[]): Record<string, Page> =>
  Object.fromEntries(
    assets.map(({ path, contentType, content }) => [
      path,
      { contentType, headers: { 'cache-control': 'public, max-age=3600' }, body: new PreparedBody(content) },
    ]),
  );
