// Conditions whose absence nobody can notice, each with its reason. The list may only shrink: a condition of which more can be seen
// is to be shown to matter by a stronger request, and one that says nothing is better left out of the statement.

const sessionIds =
  'a session is found by its id alone, which no two tenants share; the company is the way of the index';
const personIds =
  'a token names a person by the id alone, which no two tenants share; the company is the way of the index';
const peopleIds =
  'the id is that of a person whom the tenant was found to have, and no two tenants share it; the company is the way of the index';
const hashes =
  'the hash only leads to a record, which is then asked for the value itself; the company is the way of the index';
const foundFile =
  'the attachment was found in the tenant before, and links name attachments by ids that no two tenants share; the company is the way of the index';
const ownFile = 'the file has an id that this very call has given it; the company is the way of the index';

/** By the id of the condition. */
export const redundant: Readonly<Record<string, string>> = {
  'db/reach.ts members: company_id = ${companyId}':
    'a branch or team of the same id has people of its own, whom no record of the tenant can name',
  'db/customers.ts findCustomerProfile: company_id = ${companyId} #2':
    'the id is that of a person whom the record names, which no two tenants share; the company is the way of the index',
  'db/record-expansion.ts findUsers: company_id = ${companyId}':
    'the ids are those of people whom records name, which no two tenants share; the company is the way of the index',
  'db/record-filter.ts hasHash: h.company_id = r.company_id': hashes,
  'db/record-filter.ts hasHash: h.test_mode = r.test_mode': hashes,
  'db/duplicates.ts sameValue: company_id = ${companyId}': hashes,
  'db/duplicates.ts sameValue: test_mode = ${testMode}': hashes,
  'db/attachments.ts findAttachment: company_id = ${companyId}':
    'the record that it hangs on is looked for in the tenant before anything is shown, and no two tenants share ids of records',
  'db/attachments.ts deleteAttachment: company_id = ${companyId}': foundFile,
  'db/attachments.ts deleteAttachment: test_mode = ${testMode}': foundFile,
  'db/attachments.ts insertAttachment: company_id = ${companyId}': ownFile,
  'db/attachments.ts insertAttachment: test_mode = ${testMode}': ownFile,
  'db/activity-types.ts insertActivityType: company_id = ${companyId}':
    'counts for the last place, which nobody is shown: any number beyond the last is the last',
  'db/users.ts selectUsers: ur.company_id = u.company_id': peopleIds,
  'db/users.ts selectUsers: s.company_id = u.company_id': peopleIds,
  'db/users.ts updateUser: company_id = ${companyId}': peopleIds,
  'db/users.ts replaceRoles: company_id = ${companyId}': peopleIds,
  'db/users.ts hasOtherActive: u.company_id = ur.company_id': peopleIds,
  'db/roles.ts listProfiles: u.company_id = ur.company_id': peopleIds,
  'db/sla-due.ts takeDueClocks: u.company_id = ${scope.companyId}': peopleIds,
  'db/sla-due.ts insertNotifications: u.company_id = ${companyId}': peopleIds,
  'db/sla-due.ts clearRevision: company_id = ${policy.companyId}':
    'no two tenants have policies of one id that were changed in the same millisecond; the company is the way of the index',
  'db/credentials.ts findGrants: company_id = f.company_id':
    'the profile is the one that the user has, by an id that no two tenants share; the company is the way of the index',
  'db/sessions.ts endSessionsOf: company_id = ${companyId}': peopleIds,
  'db/sessions.ts findSignInOf: company_id = ${companyId}': peopleIds,
  'db/sessions.ts updatePassword: company_id = ${companyId}': peopleIds,
  'db/credentials.ts findSessions: ur.company_id = u.company_id': personIds,
  'db/credentials.ts findSessions: u.company_id = i.company_id': personIds,
  'db/credentials.ts findGrants: company_id = u.company_id': personIds,
  'db/credentials.ts findGrants: ur.company_id = f.company_id': personIds,
  'db/sessions.ts findSignIn: u.company_id = i.company_id': personIds,
  'db/sessions.ts createSession: company_id = ${session.companyId}': personIds,
  'db/sessions.ts lockRefreshToken: s.company_id = t.company_id': sessionIds,
  'db/sessions.ts lockRefreshToken: u.company_id = s.company_id': personIds,
  'db/sessions.ts lockRefreshToken: i.company_id = u.company_id': personIds,
  'db/sessions.ts replaceRefreshToken: company_id = ${session.companyId}': sessionIds,
  'db/sessions.ts endSession: company_id = ${companyId}': sessionIds,
};

/** Files whose statements no request reaches. */
export const unreached: Readonly<Record<string, string>> = {
  'db/demo.ts': 'runs once before the server listens, on the one company that it makes itself',
};

/**
 * Files whose conditions are not proven one by one yet: row-level security and the walk hold for them, and no request shows what each
 * condition is good for. The list may only shrink; MUTANTS=<file> runs those of one file.
 */
export const unproven: ReadonlySet<string> = new Set([
  'db/lead-conversion.ts',
  'db/org-structure.ts',
  'db/reports.ts',
  'db/setting-references.ts',
  'db/sla-clocks.ts',
]);
