// A request as the request log stores it.

/** A row of the table request_log. */
export interface LoggedRequest {
  company_id: string;
  test_mode: boolean;
  id: string;
  method: string;
  path: string;
  operation: string;
  status: number;
  error_code: string | null;
  duration_ms: number;
  actor_kind: 'api_key' | 'oauth_client' | 'user' | 'system';
  actor_id: string;
  /** The name of a key or an app. Names of users are looked up when the log is read. */
  key_name: string | null;
  ip: string;
  user_agent: string | null;
  idempotent_replay: boolean;
  request_body: string | null;
  error: string | null;
}
