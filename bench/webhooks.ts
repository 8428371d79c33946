// Shared by the webhook measurements: a server that may call this machine, and receivers.
import { setTimeout as sleep } from 'node:timers/promises';
import postgres, { type Sql } from 'postgres';
import { request, sendOne } from './load.ts';
import { type Side, startScript, startServer } from './sides.ts';
import { folder, openWorkspace, type Workspace } from './workspace.ts';

export interface WebhookStand {
  workspace: Workspace;
  server: Side;
  receivers: Side;
  /** Connected as the owner of the tables. */
  sql: Sql;
}

/** Starts everything, and stops it after the work. */
export async function withWebhooks<T>(work: (stand: WebhookStand) => Promise<T>): Promise<T> {
  const workspace = await openWorkspace(folder);
  const sides: Side[] = [];
  try {
    const receivers = await startScript('receivers', 'receivers.ts');
    sides.push(receivers);
    const server = await startServer('ours', { ...workspace.env, WEBHOOK_ALLOW_PRIVATE: '1' });
    sides.push(server);
    const sql = postgres(workspace.env.DATABASE_URL ?? '', { max: 1, onnotice: () => undefined });
    try {
      return await work({ workspace, server, receivers, sql });
    } finally {
      await sql.end();
    }
  } finally {
    for (const side of sides) await side.stop();
    await workspace.stop();
  }
}

/**
 * Subscribes to created leads.
 * @param port of the receiver
 * @param path selects the receiver's behavior
 * @returns the id of the subscription
 */
export async function subscribe(
  stand: WebhookStand,
  key: string,
  path: string,
  port = stand.receivers.port,
): Promise<string> {
  const body = JSON.stringify({ url: `http://127.0.0.1:${port}/${path}`, events: ['record.created'] });
  const { status, body: text } = await sendOne(
    stand.server.port,
    request('POST', '/v1/webhooks', { 'x-api-key': key, 'Idempotency-Key': crypto.randomUUID() }, body),
  );
  if (status !== 201) throw new Error(`a webhook could not be made: ${text}`);
  return JSON.parse(text).data.subscription.id;
}

/**
 * Returns the arrivals at healthy receivers since the last call, by record, and the number of
 * requests.
 */
export async function takeArrivals({
  receivers,
}: WebhookStand): Promise<{ requests: number; arrivals: Map<string, number> }> {
  const { requests, arrivals } = JSON.parse((await sendOne(receivers.port, request('GET', '/arrivals', {}))).body);
  return { requests, arrivals: new Map(arrivals) };
}

/** Waits until all events have positions. */
export async function waitUntilDispatched(sql: Sql): Promise<void> {
  while ((await sql`select from outbox_events limit 1`).length > 0) await sleep(20);
}
