// The health check, for anybody who asks: whether the service works now, and which version it is.
import { describe, expect, test } from 'vitest';
import { expectStatus } from '../support/client.ts';

describe('GET /v1/health', () => {
  test('says that all works and since when it says so, and is never taken from a cache', async () => {
    const before = Date.now();
    const { headers, body } = await expectStatus(200, 'GET', '/v1/health');
    expect(body.data).toEqual({ status: 'ok', version: '1.0.0', timestamp: expect.any(String) });
    expect(Date.parse(body.data.timestamp)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(body.data.timestamp)).toBeLessThanOrEqual(Date.now());
    expect(headers.get('cache-control')).toBe('no-store');
  });
});
