// Sessions of earlier revisions: one protocol server each, with resumable streams.
import { randomUUID } from 'node:crypto';
import type { EventStore, JSONRPCMessage, McpServer } from '@modelcontextprotocol/server';
import type { Library, Sessions } from '../../mcp/catalogue.ts';

/** The library's JSON-RPC error code. */
const sessionNotFound = -32_001;
/**
 * Milliseconds after which a client must resume an ended stream, and after which an idle stream
 * sends a keep-alive.
 */
const times = { retryInterval: 100, keepAliveMs: 2000 };

/** @param newServer creates the protocol server of a session */
export function keepSessions(library: Library, newServer: () => McpServer): Sessions {
  const transports = new Map<string, InstanceType<Library['WebStandardStreamableHTTPServerTransport']>>();

  async function begin() {
    const transport = new library.WebStandardStreamableHTTPServerTransport({
      ...times,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void transports.set(id, transport),
      onsessionclosed: (id) => void transports.delete(id),
      eventStore: keepEvents(),
    });
    await newServer().connect(transport);
    return transport;
  }

  return async (request, parsedBody) => {
    const id = request.headers.get('mcp-session-id');
    const transport = id === null ? await begin() : transports.get(id);
    if (transport) return transport.handleRequest(request, parsedBody === undefined ? {} : { parsedBody });
    const error = { code: sessionNotFound, message: 'Session not found' };
    return Response.json({ jsonrpc: '2.0', id: null, error }, { status: 404 });
  };
}

/** Stores the events of one session in order. An event id is its index. */
function keepEvents(): EventStore {
  const events: { streamId: string; message: JSONRPCMessage }[] = [];
  return {
    async storeEvent(streamId, message) {
      events.push({ streamId, message });
      return String(events.length - 1);
    },
    getStreamIdForEventId: async (eventId) => events[Number(eventId)]?.streamId,
    async replayEventsAfter(lastEventId, { send }) {
      const { streamId = '' } = events[Number(lastEventId)] ?? {};
      for (const [place, event] of events.entries())
        if (place > Number(lastEventId) && event.streamId === streamId) await send(String(place), event.message);
      return streamId;
    },
  };
}
