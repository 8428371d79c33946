// Timeouts that a busy event loop cannot trigger.
//
// A plain timer that is overdue fires before the event loop reads what has arrived meanwhile. After the loop was
// blocked, it reports that the other side did not answer, although the answer is there. These timeouts count time in
// ticks: each tick ends after the loop has polled for I/O, and counts little however long the loop was blocked in it.

/** Milliseconds between two ticks. A timeout may fire this much late. */
const tickMs = 10;
/** The most that one tick counts, in milliseconds. A tick that takes longer shows that the loop was blocked. */
const longestTickMs = 15;

/**
 * A pending timeout. Implemented by objects that exist anyway, so that a timeout allocates nothing.
 */
export interface Waiting {
  /** On the clock of `readResponsiveClock()`. */
  dueAt: number;
  /** Index in `waiting`, or -1 if it is not waiting. Only this module changes it. */
  position: number;
  /** Runs at most once per `startWaiting`. Must not throw. */
  onTimeout(): void;
}

/**
 * Unordered. An array instead of a Set, because the internal tables of a busy Set keep its members
 * from being garbage collected.
 */
const waiting: Waiting[] = [];
let counted = 0;
let lastTick = 0;
let isTicking = false;

function tick(): void {
  const now = performance.now();
  counted += Math.min(now - lastTick, longestTickMs);
  lastTick = now;
  let due: Waiting[] | undefined;
  for (const each of waiting) {
    if (each.dueAt > counted) continue;
    due ??= [];
    due.push(each);
  }
  if (due) {
    for (const each of due) {
      // An earlier callback may have stopped it.
      if (each.position === -1) continue;
      stopWaiting(each);
      each.onTimeout();
    }
  }
  isTicking = waiting.length > 0;
  if (isTicking) setTimeout(afterTimers, tickMs);
}

/** Lets the event loop poll for I/O once before any timeout is judged overdue. */
function afterTimers(): void {
  setImmediate(tick);
}

/**
 * Returns the milliseconds in which the event loop was free. Advances only while a timeout is
 * pending.
 */
export function readResponsiveClock(): number {
  return isTicking ? counted + Math.min(performance.now() - lastTick, longestTickMs) : counted;
}

/** Starts waiting until `dueAt`. */
export function startWaiting(each: Waiting): void {
  if (!isTicking) {
    isTicking = true;
    lastTick = performance.now();
    setTimeout(afterTimers, tickMs);
  }
  if (each.position === -1) each.position = waiting.push(each) - 1;
}

/** Stops waiting. Does nothing if it has not started or has ended. */
export function stopWaiting(each: Waiting): void {
  if (each.position === -1) return;
  const last = waiting.pop() as Waiting;
  if (last !== each) {
    waiting[each.position] = last;
    last.position = each.position;
  }
  each.position = -1;
}

/**
 * Like setTimeout, but counts only time in which the event loop was free.
 *
 * @returns a function that cancels it
 * @example
 * const cancel = startResponsiveTimeout(() => socket.destroy(), 3000);
 * socket.once('connect', cancel);
 */
export function startResponsiveTimeout(onTimeout: () => void, milliseconds: number): () => void {
  const each: Waiting = { dueAt: 0, position: -1, onTimeout };
  startWaiting(each);
  each.dueAt = readResponsiveClock() + milliseconds;
  return () => stopWaiting(each);
}
