// The adapter of the library: where it keeps apps, codes and tokens.
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

/** What is kept of a consent, as far as it says whose it is. */
export interface Consent {
  id: string;
  accountId: string;
  clientId: string;
}

/** Milliseconds for which a refresh token that was used is good once more: the answer may not have arrived. */
const grace = 60_000;

/** Milliseconds that an app is kept which nobody has allowed anything yet: anybody may register one. */
const unusedFor = 30 * 86_400_000;

/**
 * What is kept of one model, which the library asks for by its name.
 * @param endFamily ends what nothing is kept of, once a consent is taken back with all that came of it
 */
export function artifactsOf(pool: Pool, model: string, endFamily: (consent: Consent) => Promise<void>): Adapter {
  const hashOf = (id: string): Buffer => sha256(`${model}:${id}`);
  return {
    async upsert(id, { jti: _secret, ...payload }, seconds) {
      const milliseconds = model === 'Client' || seconds === undefined ? unusedFor : seconds * 1000;
      const expiresAt = new Date(Date.now() + milliseconds);
      const grantHash = payload.grantId === undefined ? null : sha256(`Grant:${payload.grantId}`);
      await pool.use(async (sql) => {
        // First: an app that is kept for nothing is no harm, and a consent whose app is forgotten is one.
        if (model === 'Grant') await keepArtifact(sql, 'Client', sha256(`Client:${payload.clientId}`));
        await saveArtifact(sql, { model, idHash: hashOf(id), payload, grantHash, expiresAt });
      });
    },
    async find(id) {
      const found = await pool.use((sql) => findArtifact(sql, model, hashOf(id)));
      if (!found) return undefined;
      const payload: AdapterPayload = { ...found.payload, jti: id };
      if (found.expiresAt && model !== 'Client') payload.exp = Math.floor(found.expiresAt.getTime() / 1000);
      // Only the console knows who is signed in: the library's own session carries a request through and no more.
      if (model === 'Session')
        return { ...payload, accountId: undefined, loginTs: undefined, authorizations: undefined };
      const isUsed = found.consumedAt !== null && !(model === 'RefreshToken' && isRecent(found.consumedAt));
      return isUsed ? { ...payload, consumed: Math.floor((found.consumedAt as Date).getTime() / 1000) } : payload;
    },
    async consume(id) {
      const isFirst = await pool.use((sql) => consumeArtifact(sql, model, hashOf(id), new Date()));
      // Of two exchanges at once one is late; the library has looked before both.
      if (!isFirst && model === 'AuthorizationCode')
        throw new errors.InvalidGrant('The authorization code was already used.');
    },
    async destroy(id) {
      if (model === 'Grant') {
        const { accountId, clientId } = (await pool.use((sql) => findArtifact(sql, model, hashOf(id))))?.payload ?? {};
        // First: while the consent is stored, a revocation that failed can be tried again.
        if (accountId !== undefined) await endFamily({ id, accountId: String(accountId), clientId: String(clientId) });
      }
      await pool.use((sql) => removeArtifact(sql, model, hashOf(id)));
    },
    revokeByGrantId: (grantId) => pool.use((sql) => removeArtifactsOfGrant(sql, sha256(`Grant:${grantId}`))),
    // For sessions by their second name and for devices, neither of which is used.
    findByUid: async () => undefined,
    findByUserCode: async () => undefined,
  };
}

function isRecent(time: Date): boolean {
  return Date.now() - time.getTime() < grace;
}
