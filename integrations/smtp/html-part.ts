// The HTML part of an email: its plain text, with links that are tracked.
import { LinkifyIt } from 'linkify-it';
import type { EngagementUrls, OutgoingMessage } from '../../domain/messaging/senders.ts';
import { type Html, html } from '../../runtime/pages/html.ts';

/** Maximum length of a tracked URL, because an event cannot contain a longer one. */
const maxTrackedUrlLength = 2048;

/** Finds http: and https: URLs in a whole body. Everything else stays text. */
const links = new LinkifyIt({ fuzzyLink: false, fuzzyEmail: false, urlAuth: true, maxLength: 20_000 });
for (const scheme of ['mailto:', 'ftp:', '//']) links.add(scheme, null);

/** @returns an HTML document with the same text and a tracking pixel at the end */
export function renderHtml(
  { body, isOfCampaign, unsubscribeUrl }: Pick<OutgoingMessage, 'body' | 'isOfCampaign' | 'unsubscribeUrl'>,
  { open, click }: EngagementUrls,
): string {
  const stopAddresses = unsubscribeUrl.slice(0, unsubscribeUrl.lastIndexOf('/') + 1);
  const stop = html`<br><br>-- <br><a href="${unsubscribeUrl}">Unsubscribe</a>`;
  return html`<!doctype html>
<html>
<head><meta charset="utf-8"></head>
<body>
<div style="white-space: pre-wrap">${renderLinks(body, stopAddresses, click)}${isOfCampaign ? stop : null}</div>
<img src="${open}" width="1" height="1" alt="">
</body>
</html>
`.text;
}

/** @param stopAddresses prefix of unsubscribe links, which are not tracked */
function renderLinks(text: string, stopAddresses: string, click: EngagementUrls['click']): Html[] {
  const parts: Html[] = [];
  let end = 0;
  for (const { index, lastIndex, raw, url } of links.match(text) ?? []) {
    const target = normalizeUrl(url);
    parts.push(renderLines(text.slice(end, index)));
    const isLedThrough = target !== undefined && !target.startsWith(stopAddresses);
    parts.push(html`<a href="${isLedThrough ? click(target) : url}">${raw}</a>`);
    end = lastIndex;
  }
  return [...parts, renderLines(text.slice(end))];
}

/**
 * Normalizes a URL like browsers do. undefined if it is not tracked: too long, or with a password.
 */
function normalizeUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { href, username, password } = new URL(text);
  return href.length <= maxTrackedUrlLength && username + password === '' ? href : undefined;
}

const renderLines = (text: string): Html =>
  html`${text.split(/\r\n|\r|\n/).map((line, index) => (index === 0 ? html`${line}` : html`<br>${line}`))}`;
