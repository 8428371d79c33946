// The home page of the console: what waits for a person, and the calls of the last 30 days.

import { type Attention, countAttention, mostCounted } from '../../db/automation/attention.ts';
import { findQuota, type QuotaFigures } from '../../db/billing/quota.ts';
import { countCallsByDay } from '../../db/billing/usage.ts';
import type { Sql } from '../../db/client/pool.ts';
import { hasRecords } from '../../db/records/presence.ts';
import { callsPerMonth, extraCalls } from '../../domain/billing/plans.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import type { Caller } from '../../runtime/caller.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { readSubscription } from '../../services/billing/subscription.ts';
import { dayChart, emptyState, formatNumber } from '../pages/components.ts';
import { consolePage } from '../pages/layout.ts';
import {
  act,
  buildAddress,
  buildHomeAddress,
  type ConsoleParts,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';
import { mayDecideRuns } from './campaign-runs.ts';
import { countWaiting } from './change-sets.ts';

const dayMs = 86_400_000;
/** Days of the charts, today included. */
const chartDays = 30;
/** The expiry of a key is shown this many days before: earlier than the email that announces it. */
const expiryNoticeDays = 14;
/** A failed import is shown for this many days. */
const failedImportDays = 7;
/** The quota is shown as a problem from this share on. */
const quotaWarning = 0.8;

export const showHome: Show = async (parts, request) => {
  const { person, testMode, query, now } = request;
  if (!query.has('mode') && (await hasTestDataOnly(parts, request))) return { redirect: buildHomeAddress(true) };
  const { caller } = person;
  const [figures, waitingSets] = await Promise.all([readFigures(parts, request), countWaiting(parts, request)]);
  const items = [
    ...listChangeSetItem(waitingSets, testMode),
    ...listItems(figures, caller, testMode),
    ...listBillingItems(figures, testMode),
  ];
  const waiting = html`<h2>Needs your attention</h2>
${items.length === 0 ? emptyState('Nothing is waiting for you.') : html`<ul class="cards">${items}</ul>`}`;
  const calls = caller.grants.allows('billing:view')
    ? html`<h2>API calls</h2>${dayChart(`Calls per day with ${testMode ? 'test' : 'live'} keys, in UTC`, fillDays(figures.calls, now))}`
    : null;
  const body = html`${listSteps(figures.attention, caller, testMode)}${waiting}${calls}
<p>Everything else is done by API. See the <a href="/docs">documentation</a>.</p>`;
  return consolePage(request, 200, 'Home', body);
};

/** Returns true if the workspace has only test data. Live mode would show nothing. */
async function hasTestDataOnly(parts: ConsoleParts, request: PersonalRequest): Promise<boolean> {
  const hasDataIn = (testMode: boolean): Promise<boolean> =>
    act(parts, { ...request, testMode }, [], ({ caller, db: { sql } }) => hasRecords(sql, { ...caller, testMode }));
  return !(await hasDataIn(false)) && (await hasDataIn(true));
}

interface Figures {
  attention: Attention;
  /** False if campaign runs are not shown to the person. */
  decidesRuns: boolean;
  /** The time of the mode: in test mode, that of its clock. */
  now: Date;
  calls: { day: string; calls: number }[];
  /** undefined for people who may not see the plan. */
  billing: Billing | undefined;
}

interface Billing {
  subscription: Subscription;
  /** The calls of the month; test mode has none. */
  quota: QuotaFigures | undefined;
}

function readFigures(parts: ConsoleParts, request: PersonalRequest): Promise<Figures> {
  const { computeReach } = request.person.caller;
  // Calls are counted by real days.
  const since = toDay(request.now.getTime() - (chartDays - 1) * dayMs);
  return act(parts, request, ['inbox:create'], async ({ caller, now, db: { sql } }) => {
    const viewers = {
      messages: caller,
      imports: { ...caller, reach: computeReach?.(['imports:view']) ?? caller.reach },
    };
    const [attention, calls, billing] = await Promise.all([
      countAttention(sql, caller, viewers, {
        now,
        keysUntil: new Date(now.getTime() + expiryNoticeDays * dayMs),
        importsSince: new Date(now.getTime() - failedImportDays * dayMs),
      }),
      countCallsByDay(sql, caller, since),
      caller.grants.allows('billing:view') ? readBilling(sql, caller, now) : undefined,
    ]);
    return { attention, calls, billing, now, decidesRuns: mayDecideRuns(caller) };
  });
}

const toDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

function fillDays(calls: Figures['calls'], now: Date): { day: string; value: number }[] {
  const counted = new Map(calls.map(({ day, calls }) => [day, calls]));
  return Array.from({ length: chartDays }, (_, index) => {
    const day = toDay(now.getTime() - (chartDays - 1 - index) * dayMs);
    return { day, value: counted.get(day) ?? 0 };
  });
}

const item = (address: string, number: string, name: string, text: string): Html =>
  html`<li><span class="number">${number}</span><a href="${address}">${name}</a><p>${text}</p></li>`;

const formatCount = (count: number): string =>
  count >= mostCounted ? `${formatNumber(mostCounted)} or more` : formatNumber(count);

function listItems({ attention, decidesRuns }: Figures, { grants, scopes: roles }: Caller, testMode: boolean): Html[] {
  const may = (...scopes: string[]): boolean => scopes.some((scope) => grants.allows(scope));
  const items: { isShown: boolean; count: number; path: string; status?: string; name: string; text: string }[] = [
    {
      isShown: may('inbox:create'),
      count: attention.drafts,
      path: '/console/messages',
      name: 'Messages',
      text: 'Waiting for approval. Nothing is sent until then.',
    },
    {
      isShown: decidesRuns,
      count: attention.campaignRuns,
      path: '/console/messages',
      name: 'Campaign runs',
      text: 'Prepared, and waiting for approval.',
    },
    {
      isShown: may('imports:view'),
      count: attention.failedImports,
      path: '/console/imports',
      status: 'failed',
      name: 'Failed imports',
      text: `Failed in the last ${failedImportDays} days.`,
    },
    {
      isShown: may('webhooks:view', 'settings:view'),
      count: attention.failingWebhooks,
      path: '/console/webhooks',
      name: 'Failing webhook endpoints',
      text: 'Not accepting deliveries, which are retried.',
    },
    {
      isShown: may('webhooks:view', 'settings:view'),
      count: attention.disabledWebhooks,
      path: '/console/webhooks',
      name: 'Disabled webhook endpoints',
      text: 'Failing for too long. They receive nothing until you enable them.',
    },
    {
      isShown: roles.includes('Company_Admin'),
      count: attention.expiringKeys,
      path: '/console/api-keys',
      name: 'Expiring API keys',
      text: `Expiring within ${expiryNoticeDays} days. Rotate them before then.`,
    },
  ];
  return items
    .filter(({ isShown, count }) => isShown && count > 0)
    .map(({ count, path, status = '', name, text }) =>
      item(buildAddress(path, testMode, { status }), formatCount(count), name, text),
    );
}

function listChangeSetItem({ count, hasMore }: { count: number; hasMore: boolean }, testMode: boolean): Html[] {
  if (count === 0) return [];
  const text = 'Waiting for a decision. Nothing is changed until then.';
  return [
    item(
      buildAddress('/console/change-sets', testMode),
      hasMore ? `More than ${count}` : `${count}`,
      'Change sets',
      text,
    ),
  ];
}

async function readBilling(sql: Sql, caller: Caller, now: Date): Promise<Billing> {
  const [subscription, quota] = await Promise.all([
    readSubscription({ caller, now, db: { sql } }),
    caller.testMode ? undefined : findQuota(sql, caller.companyId, { callsPerMonth, extraCalls }, now),
  ]);
  return { subscription, quota };
}

function listBillingItems({ billing, now }: Figures, testMode: boolean): Html[] {
  if (!billing) return [];
  const { subscription, quota } = billing;
  const plan = buildAddress('/console/plan', testMode);
  const items: Html[] = [];
  if (subscription.status === 'trialing' && subscription.trialEndsAt !== null) {
    const days = Math.max(0, Math.ceil((subscription.trialEndsAt.getTime() - now.getTime()) / dayMs));
    items.push(
      item(
        plan,
        days === 1 ? '1 day' : `${days} days`,
        'Trial',
        'Left in the trial. Choose a plan to continue after it.',
      ),
    );
  }
  if (quota && quota.limit !== null && quota.used >= quota.limit * quotaWarning) {
    const share = Math.floor((quota.used / Math.max(1, quota.limit)) * 100);
    const text = `${formatNumber(quota.used)} of ${formatNumber(quota.limit)} are used.`;
    items.push(item(plan, `${share} %`, 'API calls of the month', text));
  }
  return items;
}

/** Lists the first steps until all are done. */
function listSteps({ hasKey, hasCall, hasApp }: Attention, { scopes: roles }: Caller, testMode: boolean): Html | null {
  if (!roles.includes('Company_Admin') || (hasKey && hasCall && hasApp)) return null;
  const step = (isDone: boolean, text: Html): Html =>
    html`<li>${isDone ? html`<span class="badge good">Done</span> ` : null}${text}</li>`;
  return html`<h2>First steps</h2>
<ol>
${step(hasKey, html`<a href="${buildAddress('/console/api-keys/new', testMode)}">Create an API key</a>.`)}
${step(hasCall, html`Send a first call: <a href="/docs">the documentation</a> has examples to copy.`)}
${step(hasApp, html`Connect an assistant: add the address <code>/v1/mcp</code> of this server to it, and allow its access when it asks.`)}
</ol>`;
}
