// The home page of the console: what waits for a person, and figures of the last 30 days.

import { type Attention, countAttention, mostCounted } from '../../db/automation/attention.ts';
import { type ChartDay, countByDay, type DayFigures } from '../../db/automation/daily-figures.ts';
import { findQuota, type QuotaFigures } from '../../db/billing/quota.ts';
import type { Sql } from '../../db/client/pool.ts';
import { hasRecords } from '../../db/records/presence.ts';
import { callsPerMonth, extraCalls } from '../../domain/billing/plans.ts';
import type { Subscription } from '../../domain/billing/subscription.ts';
import type { Caller } from '../../runtime/caller.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { readSubscription } from '../../services/billing/subscription.ts';
import { dayChart, emptyState, formatNumber } from '../pages/components.ts';
import { canSeeWholeWorkspace, consolePage } from '../pages/layout.ts';
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
  const { person, testMode, query } = request;
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
  const body = html`${listSteps(figures.attention, caller, testMode, parts.baseUrl())}${waiting}
${renderCharts(figures, caller, testMode)}
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
  /** The days of the charts, oldest first. */
  days: ChartDay[];
  /** Of each day. */
  byDay: DayFigures[];
  /** False if the person sees no records of the whole workspace. */
  seesRecords: boolean;
  /** undefined for people who may not see the plan. */
  billing: Billing | undefined;
}

interface Billing {
  subscription: Subscription;
  /** The calls of the month; test mode has none. */
  quota: QuotaFigures | undefined;
}

async function readFigures(parts: ConsoleParts, request: PersonalRequest): Promise<Figures> {
  const { computeReach } = request.person.caller;
  const objects = await listCountedObjects(parts, request);
  return act(parts, request, ['inbox:create'], async ({ caller, now, db: { sql } }) => {
    const viewers = {
      messages: caller,
      imports: { ...caller, reach: computeReach?.(['imports:view']) ?? caller.reach },
    };
    const days = listDays(request.now, now);
    const [attention, byDay, billing] = await Promise.all([
      countAttention(sql, caller, viewers, {
        now,
        keysUntil: new Date(now.getTime() + expiryNoticeDays * dayMs),
        importsSince: new Date(now.getTime() - failedImportDays * dayMs),
      }),
      countByDay(sql, caller, days, objects),
      caller.grants.allows('billing:view') ? readBilling(sql, caller, now) : undefined,
    ]);
    const seesRecords = objects.length > 0;
    return { attention, days, byDay, seesRecords, billing, now, decidesRuns: mayDecideRuns(caller) };
  });
}

const toDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

/** Returns the objects of which the person sees all records. */
async function listCountedObjects(parts: ConsoleParts, { person }: PersonalRequest): Promise<string[]> {
  const { caller } = person;
  const { objects } = await parts.loadWorkspace(person);
  return [...objects.values()]
    .filter(({ module }) => {
      const scope = `${module}:view`;
      return caller.grants.allows(scope) && canSeeWholeWorkspace(caller, [scope]);
    })
    .map(({ object }) => object);
}

/** Calls are counted by real days, and records by those of the mode, whose clock can differ. */
const listDays = (realTime: Date, now: Date): ChartDay[] =>
  Array.from({ length: chartDays }, (_, index) => {
    const ago = (chartDays - 1 - index) * dayMs;
    return { calls: toDay(realTime.getTime() - ago), records: toDay(now.getTime() - ago) };
  });

/** Shows the charts that the person may see. */
function renderCharts({ days, byDay, seesRecords }: Figures, { grants }: Caller, testMode: boolean): Html | null {
  const listValues = (time: keyof ChartDay, figure: keyof DayFigures): { day: string; value: number }[] =>
    days.map((day, index) => ({ day: day[time], value: byDay[index]?.[figure] ?? 0 }));
  const keys = `${testMode ? 'test' : 'live'} keys`;
  const charts = [
    ...(grants.allows('billing:view')
      ? [
          dayChart({
            id: 'calls',
            title: `Calls per day with ${keys}`,
            days: listValues('calls', 'calls'),
            none: 'No calls in the last 30 days.',
          }),
        ]
      : []),
    ...(grants.allows('settings:view')
      ? [
          dayChart({
            id: 'failures',
            title: `Failed calls per day with ${keys}`,
            days: listValues('calls', 'failures'),
            none: 'No failed calls in the last 30 days.',
            tone: 'bad',
          }),
        ]
      : []),
    ...(seesRecords
      ? [
          dayChart({
            id: 'records',
            title: 'New records per day',
            days: listValues('records', 'created'),
            none: 'No new records in the last 30 days.',
            mostCounted,
          }),
        ]
      : []),
  ];
  if (charts.length === 0) return null;
  const requests = grants.allows('settings:view')
    ? html` Failed calls were answered with an error: see <a href="${buildAddress('/console/requests', testMode)}">Requests</a>.`
    : null;
  return html`<h2>The last 30 days</h2>
<div class="charts">${charts}</div>
<p class="note">Days are in UTC.${requests}</p>`;
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
function listSteps(
  { hasKey, hasCall, hasApp }: Attention,
  { scopes: roles }: Caller,
  testMode: boolean,
  baseUrl: string,
): Html | null {
  if (!roles.includes('Company_Admin') || (hasKey && hasCall && hasApp)) return null;
  const step = (isDone: boolean, text: Html): Html =>
    html`<li>${isDone ? html`<span class="badge good">Done</span> ` : null}${text}</li>`;
  return html`<h2>First steps</h2>
<ol>
${step(hasKey, html`<a href="${buildAddress('/console/api-keys/new', testMode)}">Create an API key</a>.`)}
${step(hasCall, html`Send a first call: <code>curl ${baseUrl}/v1/me -H 'x-api-key: YOUR_KEY'</code>. The <a href="/docs">documentation</a> has more to copy.`)}
${step(hasApp, html`Connect an assistant: add the address <code>${baseUrl}/v1/mcp</code> to it, and allow its access when it asks.`)}
</ol>`;
}
