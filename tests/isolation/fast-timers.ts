// Loaded into a server first: what it does every few minutes, it does every few seconds.

/** Milliseconds between two rounds of whatever takes longer. */
const every = 3000;

const { setInterval: slowly } = globalThis;
globalThis.setInterval = ((work: () => void, milliseconds = 0) =>
  slowly(work, Math.min(milliseconds, every))) as typeof setInterval;
