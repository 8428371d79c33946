// Serves the logos of workspaces. They are public, like the pages that show them.
import { findLogoImage } from '../../db/access/logos.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { PageRoute } from '../../runtime/http/page-routes.ts';
import { notFound } from './unsubscribe.ts';

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;

/** The rate limit of logos per IP address. Many people may share one address. */
export const logoPolicy = { logo: [{ limit: 600, window: 60_000 }] };

const headers = {
  // The address changes with the image.
  'cache-control': 'public, max-age=31536000, immutable',
  'content-security-policy': "default-src 'none'; sandbox",
};

export function createLogoRoute(tenants: Pool): PageRoute {
  return {
    name: 'logo',
    path: /^\/logos\/(?<company>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\/(?<hash>[0-9a-f]{32})$/,
    limit: 'logo',
    methods: ['GET', 'HEAD'],
    async show({ path }) {
      const { company = '', hash = '' } = path;
      const logo = await inTransaction(tenants, { companyId: company, testMode: false }, timeoutMs, (sql) =>
        findLogoImage(sql, company, hash),
      );
      if (!logo) return notFound;
      return { status: 200, headers: { ...headers, 'content-type': logo.contentType }, body: logo.image };
    },
  };
}
