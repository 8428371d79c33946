// Change sets of the demo workspace: one to read, and one for each decision.
import { exampleIds } from './ids.ts';

/** As in the example of the operation. */
const digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';

/** Returns the rows of the change sets. @param until when they expire */
export function buildDemoChangeSets(now: Date, until: Date) {
  const body = { name: 'Harbor Freight' };
  const operation = {
    method: 'POST',
    path: '/v1/objects/accounts/records',
    body,
    ref: null,
    target: null,
    version: null,
    scopes: [],
    pins: [],
    result: null,
    before: null,
    after: { record: body },
    status: 'pending',
    error: null,
  };
  const ids = [
    exampleIds.changeSet,
    exampleIds.changeSetToWithdraw,
    exampleIds.changeSetToApprove,
    exampleIds.changeSetToReject,
  ];
  return ids.map((id) => ({
    id,
    status: 'pending',
    title: 'Add Harbor Freight',
    reason: 'They asked for an offer',
    atomic: true,
    operations: [operation],
    operation_count: 1,
    modules: '{accounts}',
    digest,
    created_by_kind: 'api_key',
    created_by_id: exampleIds.apiKey,
    created_by_name: 'Data team',
    expires_at: until,
    created_at: now,
  }));
}
