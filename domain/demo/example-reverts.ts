// Reverts of the demo workspace: one that ended, and one to apply.
import { exampleIds } from './ids.ts';

/** The digest of a plan that changes nothing: of no bytes. */
const digest = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/**
 * Returns the rows of the reverts.
 * @param until when the plan expires, which is later than that of other plans
 */
export function buildDemoReverts(now: Date, until: Date) {
  const shared = {
    phase: 'done',
    digest,
    module: 'reverts',
    reach_kind: 'company',
    created_by_kind: 'api_key',
    created_by_id: exampleIds.apiKey,
    created_by_name: 'Data team',
    created_at: now,
  };
  const source = { importId: exampleIds.import };
  const ended = { status: 'completed', on_conflict: 'skip', started_at: now, completed_at: now };
  return [
    { ...shared, ...ended, source, id: exampleIds.revert },
    {
      ...shared,
      status: 'planned',
      source: { requestId: exampleIds.import },
      expires_at: until,
      id: exampleIds.revertToApply,
    },
  ];
}
