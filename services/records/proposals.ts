// Keeps writes of credentials that only propose changes.
import { countPendingChangeSets } from '../../db/records/change-sets.ts';
import type { Proposals } from '../../runtime/handler.ts';
import { toChangeSet } from './change-set-view.ts';
import { proposeWrite, recordChangeSet } from './change-sets.ts';

export const proposals: Proposals = {
  async propose(call, proposal) {
    const { row, isPending } = await proposeWrite(call, proposal);
    if (!isPending) recordChangeSet(call, row, 'submit', 'submitted');
    const change_set = toChangeSet(row, call.caller.testMode, call.now);
    return isPending
      ? { status: 200, data: { change_set, already_pending: true } }
      : { status: 202, data: { change_set } };
  },
  countPending: ({ caller, db: { sql }, now }) => countPendingChangeSets(sql, caller, now),
};
