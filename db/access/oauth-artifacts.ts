// The storage of the OAuth server: apps, codes, refresh tokens, pending authorization requests.
import type { Sql } from '../client/pool.ts';

export interface Artifact {
  payload: Record<string, unknown>;
  consumedAt: Date | null;
  expiresAt: Date | null;
}

export interface NewArtifact {
  model: string;
  idHash: Buffer;
  payload: Record<string, unknown>;
  grantHash: Buffer | null;
  expiresAt: Date | null;
}

/**
 * Stores an artifact and replaces the one with its id. A consent is stored for as long as any token
 * that it led to.
 */
export async function saveArtifact(sql: Sql, artifact: NewArtifact): Promise<void> {
  const { model, idHash, payload, grantHash, expiresAt } = artifact;
  const json = JSON.stringify(payload);
  await Promise.all([
    sql`
      insert into oauth_artifacts (model, id_hash, payload, grant_hash, expires_at)
      values (${model}, ${idHash}, ${json}::text::jsonb, ${grantHash}, ${expiresAt})
      on conflict (model, id_hash) do update
      set payload = excluded.payload, grant_hash = excluded.grant_hash, expires_at = excluded.expires_at`.execute(),
    grantHash === null
      ? undefined
      : sql`
        update oauth_artifacts set expires_at = greatest(expires_at, ${expiresAt})
        where model = 'Grant' and id_hash = ${grantHash}`.execute(),
  ]);
}

export async function findArtifact(sql: Sql, model: string, idHash: Buffer): Promise<Artifact | undefined> {
  const [row] = await sql<Artifact[]>`
    select payload, consumed_at, expires_at
    from oauth_artifacts where model = ${model} and id_hash = ${idHash}`;
  return row;
}

/** Removes the expiry of an artifact. */
export async function keepArtifact(sql: Sql, model: string, idHash: Buffer): Promise<void> {
  await sql`update oauth_artifacts set expires_at = null where model = ${model} and id_hash = ${idHash}`;
}

/**
 * Marks an artifact as used.
 * @returns false if it was used before; the first time of use stays
 */
export async function consumeArtifact(sql: Sql, model: string, idHash: Buffer, now: Date): Promise<boolean> {
  const used = await sql`
    update oauth_artifacts set consumed_at = ${now}
    where model = ${model} and id_hash = ${idHash} and consumed_at is null`;
  return used.count > 0;
}

export async function removeArtifact(sql: Sql, model: string, idHash: Buffer): Promise<void> {
  await sql`delete from oauth_artifacts where model = ${model} and id_hash = ${idHash}`;
}

/** Removes all codes and tokens of one consent. */
export async function removeArtifactsOfGrant(sql: Sql, grantHash: Buffer): Promise<void> {
  await sql`delete from oauth_artifacts where grant_hash = ${grantHash}`;
}

/**
 * Removes expired artifacts. For the platform role.
 * @returns how many, at most the limit
 */
export async function sweepArtifacts(sql: Sql, limit: number, now: Date): Promise<number> {
  const removed = await sql`
    delete from oauth_artifacts
    where (model, id_hash) in (
      select model, id_hash from oauth_artifacts where expires_at < ${now} order by expires_at limit ${limit}
    ) and expires_at < ${now}`;
  return removed.count;
}
