// Conditions whose absence nobody can notice, each with its reason. The list may only shrink: a condition of which more can be seen
// is to be shown to matter by a stronger request, and one that says nothing is better left out of the statement.

const sessionIds =
  'a session is found by its id alone, which no two tenants share; the company is the way of the index';

/** By the id of the condition. */
export const redundant: Readonly<Record<string, string>> = {
  'db/sessions.ts lockRefreshToken: s.company_id = t.company_id': sessionIds,
  'db/sessions.ts replaceRefreshToken: company_id = ${session.companyId}': sessionIds,
  'db/sessions.ts endSession: company_id = ${companyId}': sessionIds,
  'db/workspace.ts lockWorkspaceRows: id = ${companyId}':
    'takes locks and reads nothing: tenants would wait for each other, and none would see anything',
};

/** Files whose statements no request reaches. */
export const unreached: Readonly<Record<string, string>> = {
  'db/demo.ts': 'runs once before the server listens, on the one company that it makes itself',
};
