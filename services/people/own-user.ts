// What people may see and set of themselves, and an administrator of everybody.
import { ApiError } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** The role that looks after everybody. */
const adminRole = 'Company_Admin';

/**
 * Lets a person pass for themselves or as an administrator; keys and apps pass by their scopes.
 * @throws ApiError 403 for a session of somebody else
 */
export function openUser({
  caller,
  request: { path },
}: Pick<Call, 'caller'> & { request: { path: { id: string } } }): void {
  const isPerson = caller.kind === 'session' || caller.kind === 'person';
  if (!isPerson || caller.userId === path.id.toLowerCase() || caller.scopes.includes(adminRole)) return;
  const message = `Only the user or a person with the role ${adminRole} can do this.`;
  throw new ApiError('FORBIDDEN_SCOPE', message, { required_scopes: [adminRole] });
}
