// Serves metrics to Prometheus on a separate port, so that they are never public.
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { ConfigError } from '../config.ts';
import { http } from '../http/node-http.ts';
import type { Log } from './log.ts';

export interface MetricsServer {
  port: number;
  close(): void;
}

/**
 * Starts the server.
 * @param read returns the metrics as text
 * @throws ConfigError if the port cannot be bound
 */
export function serveMetrics(
  port: number,
  host: string,
  read: () => Promise<string>,
  log: Log,
): Promise<MetricsServer> {
  const server = http.createServer({ headersTimeout: 5000, requestTimeout: 5000 }, (request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    read().then(
      (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      (error: Error) => {
        log.error({ err: { message: error.message, stack: error.stack } }, 'failed to read metrics');
        response.writeHead(500).end();
      },
    );
  });
  return new Promise((resolve, reject) => {
    server.on('error', ({ code }: NodeJS.ErrnoException) =>
      reject(new ConfigError(`METRICS_PORT ${port} cannot be used (${code}). Set it to a free port.`)),
    );
    server.listen(port, host, () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        close() {
          server.close();
          server.closeAllConnections();
        },
      }),
    );
  });
}
