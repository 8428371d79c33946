// An API key as requests are checked against it, whether it is still valid or not.

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
  /** Changes with any row that the key is described by. */
  stamp: string;
}
