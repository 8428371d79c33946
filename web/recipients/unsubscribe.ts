// The unsubscribe page of emails: GET shows a button, POST unsubscribes.
import { v7 as uuidv7 } from 'uuid';
import { buildSystemAuditRow } from '../../db/client/change-log.ts';
import { inTransaction } from '../../db/client/in-transaction.ts';
import type { Pool } from '../../db/client/pool.ts';
import type { TenantScope } from '../../db/client/tenant.ts';
import { findMailedDraft, type MailedDraft } from '../../db/messaging/draft-sending.ts';
import { addSuppressed } from '../../db/messaging/email-suppression.ts';
import type { SignedTokens } from '../../runtime/credentials/signed-tokens.ts';
import type { PageResponse, PageRoute } from '../../runtime/http/page-routes.ts';
import { html, isolateText, page } from '../../runtime/pages/html.ts';
import { renderBrandedPage } from '../pages/brand.ts';

/**
 * The rate limit of the unsubscribe page per IP address. Mail providers click links for many
 * people.
 */
export const unsubscribePolicy = { unsubscribe: [{ limit: 600, window: 60_000 }] };

/** Transaction timeout in milliseconds. */
const timeoutMs = 5000;
const purpose = 'unsubscribe';

/** Returns the path of the page for the recipient of a draft. */
export function buildUnsubscribePath(
  tokens: SignedTokens,
  { companyId, testMode }: TenantScope,
  draftId: string,
): string {
  return `/unsubscribe/${tokens.write(purpose, [companyId, testMode, draftId])}`;
}

export function createUnsubscribePage(tenants: Pool, tokens: SignedTokens): PageRoute {
  return {
    name: 'unsubscribe',
    path: /^\/unsubscribe\/(?<token>[\w.-]{1,500})$/,
    limit: 'unsubscribe',
    async show({ path, body, now }) {
      const [companyId, testMode, id] = (tokens.read(purpose, path.token ?? '') ?? []) as [string?, boolean?, string?];
      if (!companyId || testMode === undefined || !id) return notFound;
      const scope = { companyId, testMode };
      // Link scanners send GET requests. People submit the form, or their mail program sends the
      // one-click POST.
      if (body === undefined) {
        const mailed = await inTransaction(tenants, scope, timeoutMs, (sql) => findMailedDraft(sql, scope, id));
        return mailed ? confirmationPage(mailed) : notFound;
      }
      const mailed = await suppress(tenants, scope, id, now);
      return mailed ? donePage(mailed) : notFound;
    },
  };
}

function suppress(tenants: Pool, scope: TenantScope, id: string, now: Date): Promise<MailedDraft | undefined> {
  return inTransaction(tenants, scope, timeoutMs, async (sql, _tell, note) => {
    const mailed = await findMailedDraft(sql, scope, id);
    if (!mailed) return undefined;
    const { entry, isNew } = await addSuppressed(sql, scope, {
      id: uuidv7(),
      email: mailed.recipient,
      reason: 'unsubscribed',
      source: 'opt_out',
      campaignId: mailed.campaignId,
      createdAt: now,
    });
    if (isNew) {
      const metadata = { reason: entry.reason, source: entry.source, draft_id: id };
      const about = { object: 'email_suppressions', recordId: entry.id, metadata };
      note(buildSystemAuditRow(scope, 'unsubscribe', 'email_suppression.create', about, now));
    }
    return mailed;
  });
}

/** The response for an invalid link, or for a draft that no longer exists. */
export const notFound: PageResponse = {
  status: 404,
  html: page('Not found', html`<p>This page does not exist. Check that the link is complete.</p>`),
};

const confirmationPage = ({ recipient, ...brand }: MailedDraft): PageResponse =>
  renderBrandedPage(
    200,
    'Unsubscribe',
    html`<p>Do you want to stop emails from ${isolateText(brand.companyName)} to ${isolateText(recipient)}?</p>
<form method="post">
<button>Unsubscribe</button>
</form>`,
    brand,
  );

const donePage = ({ recipient, ...brand }: MailedDraft): PageResponse =>
  renderBrandedPage(
    200,
    'You are unsubscribed',
    html`<p role="status">${isolateText(brand.companyName)} will no longer send emails to ${isolateText(recipient)}. You can close this page.</p>`,
    brand,
  );
