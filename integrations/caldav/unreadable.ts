// What is wrong with an answer that cannot be used.

/** Its message is for the log: in general words, nothing of what was read. */
export class Unreadable extends Error {}
