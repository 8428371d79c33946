// An API key as requests are checked against it, whether it is still valid or not.

/** How a credential writes: writes take effect, or become change sets that wait for a person. */
export type WriteMode = 'direct' | 'propose';

export interface ApiKey {
  keyId: string;
  keyName: string;
  testMode: boolean;
  scopes: string[];
  ipAllowlist: string[];
  reachKind: 'company' | 'branch' | 'team';
  reachId: string | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  perMinute: number;
  perHour: number;
  writeMode: WriteMode;
  /** Changes with any row that the key is described by. */
  stamp: string;
}
