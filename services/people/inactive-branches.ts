// The problem of a field that would move users or a team into an inactive branch.
import { buildProblem, type FieldProblem } from '../../runtime/errors.ts';

/** @param field `branch_id`, or `team_id` for a team of an inactive branch */
export function buildInactiveProblem(field: 'branch_id' | 'team_id'): FieldProblem {
  const rule = field === 'branch_id' ? 'the id of an active branch' : 'the id of a team of an active branch';
  return buildProblem(field, 'NOT_FOUND', `${field} must be ${rule}`);
}
