// F9: event loop lag while the server reads texts that are made to keep programs busy.
import { findFreePort } from '../app/embedded-postgres/free-port.ts';
import { hostileTexts } from '../tests/support/hostile-texts.ts';
import { load, request } from './load.ts';
import type { Result } from './report.ts';
import type { Settings } from './rounds.ts';
import { startServer } from './sides.ts';
import { folder, openWorkspace } from './workspace.ts';

/**
 * A hostile text delays the server in every round. A delay in one round only comes from the
 * machine.
 */
const rounds = 3;
/**
 * The longest text that a body may contain, and lengths that single fields accept, so that checks
 * after the length check run too.
 */
const lengths = [100_000, 2000, 250, 90];
const requestsOfEach = 8;
/** Includes Node's sampling interval of 10 ms. */
const lag = /^nodejs_eventloop_lag_max_seconds(?:\{[^}]*\})? (\S+)$/m;

export async function measureHostileClients(settings: Settings): Promise<Result> {
  const workspace = await openWorkspace(folder);
  try {
    const metricsPort = await findFreePort();
    const server = await startServer('ours', { ...workspace.env, METRICS_PORT: String(metricsPort) });
    try {
      const send = (bytes: Buffer) =>
        load({ port: server.port, connections: 1, milliseconds: 10_000, most: 1, anyAnswer: true, next: () => bytes });
      const readLag = async (): Promise<number> => {
        const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
        return Number(lag.exec(text)?.[1]) * 1000;
      };
      const least = new Map<string, number>();
      const measureLag = async (name: string, work: () => Promise<unknown>): Promise<void> => {
        // Reading it resets it.
        await readLag();
        await work();
        least.set(name, Math.min(least.get(name) ?? Number.POSITIVE_INFINITY, await readLag()));
      };
      const plain = requestsWith(workspace.key, 'Walk', 0);
      for (const bytes of plain) await send(bytes);
      for (let round = 0; round < rounds; round += 1) {
        await measureLag('', async () => {
          for (let count = 0; count < requestsOfEach; count += 1) for (const bytes of plain) await send(bytes);
        });
        for (const [name, text] of Object.entries(hostileTexts))
          await measureLag(name, async () => {
            for (const length of lengths)
              for (const bytes of requestsWith(workspace.key, text.slice(0, length).toWellFormed(), round))
                await send(bytes);
          });
      }
      const usual = least.get('') ?? Number.NaN;
      least.delete('');
      const [worst, value] = [...least].sort(([, a], [, b]) => b - a)[0] as [string, number];
      return {
        name: 'hostile',
        figure: 'F9',
        what: 'the longest that the event loop was late while hostile texts were read',
        settings: { ...settings, rounds, texts: least.size, longest: lengths[0] ?? 0 },
        sides: [],
        ratios: [],
        values: [
          { name: `by ${worst}`, value, unit: 'ms', target: 50 },
          { name: 'by a plain text', value: usual, unit: 'ms', target: 50 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await workspace.stop();
  }
}

/**
 * Returns requests with a text in records, fields, keys, people and queries, which covers every
 * rule for texts.
 */
function requestsWith(key: string, text: string, round: number): Buffer[] {
  const headers = { 'x-api-key': key };
  const post = (path: string, body: object, own: Record<string, string> = {}): Buffer =>
    request('POST', path, { ...headers, ...own }, JSON.stringify(body));
  const lead = ['email', 'mobile', 'website', 'first_name', 'notes', 'followup_at', 'lead_status', 'priority'];
  const line = encodeURIComponent(text.slice(0, 1000).toWellFormed());
  const filter = (field: string, op: string) =>
    encodeURIComponent(JSON.stringify({ field, op, value: text.slice(0, 1000).toWellFormed() }));
  return [
    // Each field separately, because validation may stop at the first invalid one.
    ...lead.map((field) => post('/v1/objects/leads/records', { first_name: `Walk ${round}`, [field]: text })),
    post('/v1/leads', Object.fromEntries(lead.map((field) => [field, text]))),
    post('/v1/objects/leads/fields', { name: text, label: text, type: 'text' }),
    post('/v1/objects/leads/fields', {
      name: 'a',
      label: 'a',
      type: 'select',
      options: [{ label: text, value: text }],
    }),
    post('/v1/objects', { slug: text, label: text, plural: text }),
    post('/v1/settings/activity-types', { name: text, icon: text, color: text }),
    post('/auth/v1/token?grant_type=password', { email: text, password: text }),
    request('GET', `/v1/objects/leads/records?sort=${line}`, headers),
    request('GET', `/v1/objects/leads/records?cursor=${line}`, headers),
    ...['email', 'mobile', 'created_at', 'first_name'].map((field) =>
      request('GET', `/v1/objects/leads/records?filter=${filter(field, 'eq')}`, headers),
    ),
    ...(/^[\x21-\x7e]*$/.test(text)
      ? [
          post('/v1/objects/leads/records', { first_name: 'Walk' }, { 'Idempotency-Key': text.slice(0, 8000) }),
          request('GET', '/v1/me', { 'x-api-key': text.slice(0, 8000) }),
          request('GET', '/v1/me', { authorization: `Bearer ${text.slice(0, 8000)}` }),
          request('GET', '/v1/me', { ...headers, 'x-forwarded-for': text.slice(0, 8000) }),
        ]
      : []),
  ];
}
