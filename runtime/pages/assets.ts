// Style sheets and scripts of pages: files of the server, so that pages need no inline ones.
import { createHash } from 'node:crypto';

export interface Asset {
  path: string;
  contentType: string;
  content: string;
  /** The path with the version of the content, for links: browsers fetch a new version at once. */
  address: string;
}

export function createAsset(path: string, contentType: string, content: string): Asset {
  const version = createHash('sha256').update(content).digest('base64url').slice(0, 12);
  return { path, contentType, content, address: `${path}?v=${version}` };
}
