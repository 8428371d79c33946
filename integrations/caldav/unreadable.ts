// The error for responses that cannot be used.

/** Its message is logged, so it is general and contains nothing of the response. */
export class Unreadable extends Error {}
