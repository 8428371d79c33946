// The Model Context Protocol through the official clients of both generations, and by hand.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { inject } from 'vitest';
import { type Answer, anyAddress, type CallOptions, call, type Json } from './client.ts';

export const mcpPath = '/v1/mcp';
export const generations = ['2026-07-28', '2025-11-25'] as const;
export type Generation = (typeof generations)[number];

/** The part of both clients that tests use. */
export interface McpClient {
  listTools(): Promise<Json>;
  callTool(call: { name: string; arguments?: Record<string, unknown> }): Promise<Json>;
  listResources(): Promise<Json>;
  listResourceTemplates(): Promise<Json>;
  readResource(resource: { uri: string }): Promise<Json>;
  listPrompts(): Promise<Json>;
  getPrompt(prompt: { name: string }): Promise<Json>;
  getServerVersion(): Json;
  close(): Promise<void>;
}

/** Returns a connected client, whose calls come from one new address. */
export async function connect(
  headers: Record<string, string>,
  generation: Generation = '2026-07-28',
  baseUrl = inject('baseUrl'),
): Promise<McpClient> {
  const url = new URL(mcpPath, baseUrl);
  const info = { name: 'test', version: '1.0.0' };
  const requestInit = { headers: { 'x-forwarded-for': anyAddress(), ...headers } };
  if (generation === '2025-11-25') {
    const client = new EarlierClient(info);
    await client.connect(new EarlierTransport(url, { requestInit }) as never);
    return client as unknown as McpClient;
  }
  const client = new Client(info, { versionNegotiation: { mode: { pin: generation } } });
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  return client as unknown as McpClient;
}

export const withKey = (key: string, generation?: Generation): Promise<McpClient> =>
  connect({ 'x-api-key': key }, generation);

/** Posts a message of the newest revision by hand. */
export function post(
  method: string,
  params: Record<string, unknown> = {},
  { headers, ...options }: CallOptions = {},
): Promise<Answer> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const name = params.name ?? params.uri;
  return call('POST', mcpPath, {
    ...options,
    body: { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
      ...headers,
    },
  });
}

export const callTool = (name: string, args: object, options: CallOptions): Promise<Answer> =>
  post('tools/call', { name, arguments: args }, options);
