// The storage adapter of the OAuth library: apps, codes, tokens and consents.
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import {
  consumeArtifact,
  findArtifact,
  keepArtifact,
  removeArtifact,
  removeArtifactsOfGrant,
  saveArtifact,
} from '../db/access/oauth-artifacts.ts';
import type { Pool } from '../db/client/pool.ts';
import { sha256 } from '../runtime/credentials/secrets.ts';

/** The owner of a stored consent. */
export interface Consent {
  id: string;
  accountId: string;
  clientId: string;
}

/**
 * Milliseconds in which a used refresh token works once more, because the client may have lost the
 * response.
 */
const reuseGraceMs = 60_000;

/** Milliseconds for which an app without any consent is stored. Anyone can register an app. */
const unusedAppTtlMs = 30 * 86_400_000;

/**
 * Creates the adapter of one model of the library.
 * @param endFamily ends the access tokens of a revoked consent, which are not stored
 */
export function createAdapter(pool: Pool, model: string, endFamily: (consent: Consent) => Promise<void>): Adapter {
  const hashId = (id: string): Buffer => sha256(`${model}:${id}`);
  return {
    async upsert(id, { jti: _secret, ...payload }, seconds) {
      const milliseconds = model === 'Client' || seconds === undefined ? unusedAppTtlMs : seconds * 1000;
      const expiresAt = new Date(Date.now() + milliseconds);
      const grantHash = payload.grantId === undefined ? null : sha256(`Grant:${payload.grantId}`);
      await pool.use(async (sql) => {
        // The app is updated first. An app without a consent is harmless, but a consent without its
        // app is not.
        if (model === 'Grant') await keepArtifact(sql, 'Client', sha256(`Client:${payload.clientId}`));
        await saveArtifact(sql, { model, idHash: hashId(id), payload, grantHash, expiresAt });
      });
    },
    async find(id) {
      const found = await pool.use((sql) => findArtifact(sql, model, hashId(id)));
      if (!found) return undefined;
      const payload: AdapterPayload = { ...found.payload, jti: id };
      if (found.expiresAt && model !== 'Client') payload.exp = Math.floor(found.expiresAt.getTime() / 1000);
      // Only the console knows who is signed in. The library's session only carries one request
      // through, so its account is removed.
      if (model === 'Session')
        return { ...payload, accountId: undefined, loginTs: undefined, authorizations: undefined };
      const isUsed = found.consumedAt !== null && !(model === 'RefreshToken' && isRecent(found.consumedAt));
      return isUsed ? { ...payload, consumed: Math.floor((found.consumedAt as Date).getTime() / 1000) } : payload;
    },
    async consume(id) {
      const isFirst = await pool.use((sql) => consumeArtifact(sql, model, hashId(id), new Date()));
      // Of two concurrent exchanges one is late. The library checks before either of them consumes
      // the code.
      if (!isFirst && model === 'AuthorizationCode')
        throw new errors.InvalidGrant('The authorization code was already used.');
    },
    async destroy(id) {
      if (model === 'Grant') {
        const { accountId, clientId } = (await pool.use((sql) => findArtifact(sql, model, hashId(id))))?.payload ?? {};
        // The family ends first. While the consent is stored, a failed revocation can be retried.
        if (accountId !== undefined) await endFamily({ id, accountId: String(accountId), clientId: String(clientId) });
      }
      await pool.use((sql) => removeArtifact(sql, model, hashId(id)));
    },
    revokeByGrantId: (grantId) => pool.use((sql) => removeArtifactsOfGrant(sql, sha256(`Grant:${grantId}`))),
    // Lookups of sessions by uid and of device codes. Neither is used.
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}

function isRecent(time: Date): boolean {
  return Date.now() - time.getTime() < reuseGraceMs;
}
