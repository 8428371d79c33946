// Loaded into a server before anything else: what it does every few minutes, it does every few seconds, while requests are answered.

/** Milliseconds between two rounds of whatever takes longer. */
const every = 3000;

const { setInterval: slowly } = globalThis;
globalThis.setInterval = ((work: () => void, milliseconds = 0) =>
  slowly(work, Math.min(milliseconds, every))) as typeof setInterval;
