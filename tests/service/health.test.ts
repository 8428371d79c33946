// The public health check: whether the service works, and its version.
import { describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';

describe('GET /v1/health', () => {
  test('reports that all parts work and since when, and is never cached', async () => {
    const before = Date.now();
    const { headers, body } = await expectStatus(200, 'GET', '/v1/health');
    expect(body.data).toEqual({ status: 'ok', version: '1.0.0', timestamp: expect.any(String) });
    expect(Date.parse(body.data.timestamp)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(body.data.timestamp)).toBeLessThanOrEqual(Date.now());
    expect(headers.get('cache-control')).toBe('no-store');
  });
});
