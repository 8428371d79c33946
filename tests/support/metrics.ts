// Reads the metrics of a server as Prometheus does.
import type { TestServer } from './servers.ts';

/** Returns the metrics of a server that was started with METRICS_PORT=0. */
export async function readMetrics(server: TestServer): Promise<string> {
  const response = await fetch(metricsUrl(server));
  if (response.status !== 200) throw new Error(`the metrics answered ${response.status}`);
  return await response.text();
}

export function metricsUrl(server: TestServer): string {
  return `http://127.0.0.1:${/"metrics_port":(\d+)/.exec(server.output())?.[1]}/metrics`;
}

/** Returns the sum of all series of a name with these labels, or undefined if there are none. */
export function seriesValue(text: string, name: string, labels: Record<string, string> = {}): number | undefined {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  const found = text
    .split('\n')
    .map((line) => /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line))
    .filter((parts) => parts?.[1] === name && wanted.every((label) => parts[2]?.split(',').includes(label)));
  return found.length === 0 ? undefined : found.reduce((sum, parts) => sum + Number(parts?.[3]), 0);
}
