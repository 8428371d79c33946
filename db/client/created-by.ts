// Who made a row: its columns, written from who calls and read as the actor that answers show.

export interface CreatedByRow {
  created_by_kind: 'api_key' | 'oauth_client' | 'user' | 'system';
  created_by_id: string;
  created_by_name: string | null;
}

/** Who makes a row. */
export interface Actor {
  kind: CreatedByRow['created_by_kind'];
  id: string;
  name: string | null;
}

/** @param caller userId is the user in whose name an app or a session acts; null for keys */
export function createdColumns({ actor, userId }: { actor: Actor; userId: string | null }) {
  return {
    created_by_kind: actor.kind,
    created_by_id: actor.id,
    created_by_name: actor.name,
    created_by_user: userId,
  };
}

export function actorOf(row: CreatedByRow): Actor {
  return { kind: row.created_by_kind, id: row.created_by_id, name: row.created_by_name };
}
