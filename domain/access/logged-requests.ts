// A request of the request log.

export interface LoggedRequest {
  companyId: string;
  testMode: boolean;
  id: string;
  method: string;
  path: string;
  operation: string;
  status: number;
  errorCode: string | null;
  durationMs: number;
  actorKind: 'api_key' | 'oauth_client' | 'user' | 'system';
  actorId: string;
  /** The name of a key or an app. Names of users are looked up when the log is read. */
  keyName: string | null;
  ip: string;
  userAgent: string | null;
  idempotentReplay: boolean;
  /** JSON text, which may be cut off. Only of failed writes. */
  requestBody: string | null;
  /** JSON text. Only of failed requests. */
  error: string | null;
}

/** A request as lists of the log show it. */
export type RequestSummary = Omit<LoggedRequest, 'companyId' | 'testMode' | 'requestBody' | 'error'>;
