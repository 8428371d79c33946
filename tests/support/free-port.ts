// A port that nobody listens on, for programs that do not choose one themselves.
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Finds a free port below those that the system gives to outgoing connections, so that it is still
 * free when a program takes it, or takes it again after it was killed.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.on('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
