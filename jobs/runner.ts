// Rounds: work that comes again and again, one round at a time, until the server stops.
import type { Log } from '../runtime/telemetry/log.ts';

/** Milliseconds that a stopping server waits for a round on its way. */
const longest = 5000;

/**
 * Begins a round every so often, unless the one before is still on its way. One that fails is logged, and the next tries again.
 * @param milliseconds from one beginning to the next
 * @param work is told when the server stops, so that it can end early
 * @param log says which job it is
 * @returns a function that stops the rounds, once the one on its way has ended or a few seconds have passed
 */
export function everyRound(
  milliseconds: number,
  work: (stop: AbortSignal) => Promise<void>,
  log: Log,
): () => Promise<void> {
  const stop = new AbortController();
  let running: Promise<void> | undefined;
  const round = async (): Promise<void> => {
    try {
      await work(stop.signal);
    } catch (error) {
      log.warn({ err: { message: (error as Error).message } }, 'a round failed; the next one tries again');
    } finally {
      running = undefined;
    }
  };
  const timer = setInterval(() => {
    running ??= round();
  }, milliseconds);
  timer.unref();
  return async () => {
    clearInterval(timer);
    stop.abort();
    const late = new Promise<void>((resolve) => setTimeout(resolve, longest).unref());
    await Promise.race([running, late]);
  };
}
