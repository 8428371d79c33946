// Converts users to API responses.
import type { components } from '../../generated/api.ts';

/** The required fields of a user's row. */
export interface ShowableUser {
  id: string;
  fullName: string;
  email: string;
  status: 'active' | 'inactive';
  roles: readonly { id: string; name: string }[];
  branch: { id: string; name: string } | null;
  team: { id: string; name: string } | null;
  lastSignInAt: Date | null;
  mustChangePassword: boolean;
  createdAt: Date;
}

export function toUserResponse(user: ShowableUser): components['schemas']['User'] {
  return {
    id: user.id,
    full_name: user.fullName,
    email: user.email,
    status: user.status,
    roles: user.roles.map(({ id, name }) => ({ id, name })),
    branch: user.branch && { id: user.branch.id, name: user.branch.name },
    team: user.team && { id: user.team.id, name: user.team.name },
    last_sign_in_at: user.lastSignInAt?.toISOString() ?? null,
    must_change_password: user.mustChangePassword,
    created_at: user.createdAt.toISOString(),
  };
}
