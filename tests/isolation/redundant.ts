// Conditions whose absence nobody can notice, each with its reason. The list may only shrink: a condition of which more can be seen
// is to be shown to matter by a stronger request, and one that says nothing is better left out of the statement.

/** By the id of the condition. */
export const redundant: Readonly<Record<string, string>> = {};

/** Files whose statements no request reaches. */
export const unreached: Readonly<Record<string, string>> = {
  'db/demo.ts': 'runs once before the server listens, on the one company that it makes itself',
};
