// Access to a user: people can read and change their own, administrators all of them.
import { ApiError } from '../../runtime/errors.ts';
import type { Call } from '../../runtime/handler.ts';

/** The role that manages all users. */
const adminRole = 'Company_Admin';

/**
 * Allows a person for their own user or as an administrator. API keys and apps are checked by their
 * scopes only.
 * @throws ApiError 403 for the session of another person
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
