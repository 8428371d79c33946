// Deliveries of a webhook endpoint: requests, responses and replays.

import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { changing, doneMessage, factList, formatTime, table } from '../pages/components.ts';
import { errorSummary, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type ConsoleParts, type Data, type PersonalRequest, type Show } from '../pages/requests.ts';

type Delivery = Data<'listWebhookDeliveries'>['deliveries'][number];

export const statuses: Readonly<Record<Delivery['status'], string>> = {
  pending: 'Pending',
  retrying: 'Retrying',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Cancelled',
  skipped: 'Skipped while disabled',
};

/** Returns true if no further attempt follows. */
const isFinal = ({ status }: Delivery): boolean => status !== 'pending' && status !== 'retrying';

const doneMessages = { replayed: 'A copy of the delivery is being sent.' };

/** @param here the page of the webhook endpoint */
export function deliveriesTable(deliveries: readonly Delivery[], here: string, testMode: boolean): Html {
  if (deliveries.length === 0) return html`<p>No deliveries.</p>`;
  const rows = deliveries.map((each) => [
    html`<a href="${buildAddress(`${here}/deliveries/${each.id}`, testMode)}">${each.event}</a>`,
    statuses[each.status],
    each.last_response_code ?? each.last_error,
    `${each.attempts} of ${each.max_attempts}`,
    formatTime(each.created_at),
  ]);
  return table('Deliveries', ['Event', 'Status', 'Response', 'Attempts', 'Created'], rows);
}

export const showDelivery: Show = (parts, request) => deliveryPage(parts, request, 200);

async function deliveryPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { path, testMode } = request;
  const { id = '', delivery: deliveryId = '' } = path;
  const { delivery } = await ask(parts, request, 'getWebhookDelivery', { path: { id, deliveryId } });
  const webhook = `/console/webhooks/${id}`;
  const here = `${webhook}/deliveries/${deliveryId}`;
  const original = delivery.replay_of;
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${factList({
  Status: isFinal(delivery) ? statuses[delivery.status] : changing(statuses[delivery.status]),
  Event: html`<code>${delivery.event_id}</code>`,
  Attempts: `${delivery.attempts} of ${delivery.max_attempts}`,
  'Last response': delivery.last_response_code ?? delivery.last_error ?? 'none',
  Duration: delivery.duration_ms === null ? null : `${delivery.duration_ms} ms`,
  'Next attempt': formatTime(delivery.next_attempt_at),
  Created: formatTime(delivery.created_at),
  Completed: formatTime(delivery.completed_at),
  'Copy of':
    original === null
      ? null
      : html`<a href="${buildAddress(`${webhook}/deliveries/${original}`, testMode)}">${original}</a>`,
})}
${form(request, `${here}/replay`, html`<button>Replay</button>`)}
<h2>Request</h2>
<pre tabindex="0">${delivery.request_body}</pre>
<h2>Response</h2>
${delivery.last_response_snippet ? html`<pre tabindex="0">${delivery.last_response_snippet}</pre>` : html`<p>No response.</p>`}
<p><a href="${buildAddress(webhook, testMode)}">Back to the webhook endpoint</a></p>`;
  return consolePage(request, status, `Delivery of ${delivery.event}`, body);
}

export const replayDelivery: Show = (parts, request) => {
  const { id = '', delivery: deliveryId = '' } = request.path;
  return submitOrShowAgain(
    async () => {
      const { delivery } = await ask(parts, request, 'replayWebhookDelivery', { path: { deliveryId } });
      const to = `/console/webhooks/${id}/deliveries/${delivery.id}`;
      return { redirect: buildAddress(to, request.testMode, { done: 'replayed' }) };
    },
    (refused) => deliveryPage(parts, request, refused.status, { refused }),
  );
};
