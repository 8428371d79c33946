// The creator of a row: its columns, and the actor that responses show.

import type { TenantScope } from './tenant.ts';

export interface CreatedByRow {
  createdByKind: 'api_key' | 'oauth_client' | 'user' | 'system';
  createdById: string;
  createdByName: string | null;
}

/** The creator of a row. */
export interface Actor {
  kind: CreatedByRow['createdByKind'];
  id: string;
  name: string | null;
}

/** A tenant whose records change, and the actor who changes them. */
export interface ActingScope extends TenantScope {
  actor: Pick<Actor, 'id'>;
}

/** @param caller userId is the user for whom an app or a session acts; null for keys */
export function toCreatedColumns({ actor, userId }: { actor: Actor; userId: string | null }) {
  return {
    createdByKind: actor.kind,
    createdById: actor.id,
    createdByName: actor.name,
    createdByUser: userId,
  };
}

export function toActor(row: CreatedByRow): Actor {
  return { kind: row.createdByKind, id: row.createdById, name: row.createdByName };
}
