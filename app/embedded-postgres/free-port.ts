// Finds a free port for a program that does not choose one itself.
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Finds a free port below those that the system gives to outgoing connections, so that none of them
 * takes it before the program does, or while the program is started again.
 */
export async function findFreePort(): Promise<number> {
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
