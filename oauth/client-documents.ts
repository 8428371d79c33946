// Descriptions of apps at an address that is the app's id, fetched through the guarded client.
import type { OutgoingClient } from '../runtime/outbound/client.ts';
import { readMetadata } from './client-metadata.ts';

/** Bytes of a description, at most. */
const mostBytes = 10_240;
/** Milliseconds: an answer waits for it. */
const within = 2500;

/** Fetches as the library asks for it; nothing but such a description is ever fetched by it. */
export function documentFetcher(outgoing: OutgoingClient): typeof fetch {
  return async (input) => {
    const url = String(input);
    const headers = { accept: 'application/json' };
    // Never in test mode, which may be allowed to reach private addresses.
    const request = { method: 'GET' as const, url, headers, testMode: false, mostBytes, within };
    const { status, body, isWhole, headers: answered } = await outgoing.send(request);
    if (status !== 200 || !isWhole) return new Response(null, { status: 502 });
    const given = JSON.parse(body.toString()) as Record<string, unknown>;
    const metadata = readMetadata(given);
    if ('error' in metadata) throw new Error(metadata.error_description);
    const age = answered['cache-control'];
    return Response.json(
      { ...metadata, client_id: given.client_id },
      { headers: age === undefined ? {} : { 'cache-control': age } },
    );
  };
}
