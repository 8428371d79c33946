// Sentences that error messages of several operations share.

/** Ends a message with a period, unless it already ends with punctuation. */
export const toSentence = (text: string): string => (/[.?!]$/.test(text) ? text : `${text}.`);

export const sendAtLeastOneOf = (names: readonly string[]): string => `Send at least one of ${names.join(', ')}.`;

export const sendOneOf = (names: readonly string[]): string => `Send one of ${names.join(', ')}.`;

export const sendOnlyOneOf = (names: readonly string[]): string => `Send only one of ${names.join(', ')}.`;

export const sendTogether = (names: readonly string[]): string => `${names.join(' and ')} must be sent together.`;
