// The one place that reads environment variables. An unknown or malformed value stops the start with a sentence that says what to change.
import { resolve } from 'node:path';
import { isAddressRange } from './client-address.ts';

export interface Config {
  port: number;
  host: string;
  baseUrl: string;
  authUrl: string;
  dashboardUrl: string;
  dataDir: string;
  /** undefined: the server starts its own PostgreSQL in dataDir. */
  databaseUrl: string | undefined;
  /** Connections for tenants' transactions. */
  databasePool: number;
  /** False behind a transaction-mode pooler that does not keep prepared statements. */
  databasePrepare: boolean;
  redisUrl: string | undefined;
  /** Processes that answer requests. */
  workers: number;
  /** Where Prometheus reads; undefined: nowhere. */
  metricsPort: number | undefined;
  trustedProxies: string[];
  logLevel: string;
  demo: boolean;
  /** Whose OAuth access tokens are accepted. */
  oauth: OAuthSettings;
  /** When set, the identity provider's routes ask for it in the header `apikey`. */
  anonKey: string | undefined;
  /** 64 hex characters; undefined: made once and kept in dataDir. */
  secretKey: string | undefined;
  /** Per IP and hour; the daily limit is four times as much. */
  onboardingPerHour: number;
}

export interface OAuthSettings {
  issuer: string;
  /** undefined: the tokens are our own, and so are the keys. */
  jwksUri: string | undefined;
  /** undefined: whom a token is meant for is not asked. */
  audience: string | undefined;
}

/** Thrown for a setting that cannot be used; the message is written for the operator. */
export class ConfigError extends Error {}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/**
 * Reads the settings.
 * @param env the environment, usually process.env
 * @throws ConfigError naming the variable and what it may be
 */
export function readConfig(env: Record<string, string | undefined>): Config {
  const port = integer(env, 'PORT', 8080, 0, 65_535);
  const host = text(env, 'HOST') ?? '127.0.0.1';
  const baseUrl = url(env, 'BASE_URL') ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const databaseUrl = text(env, 'DATABASE_URL');
  if (databaseUrl && !/^postgres(ql)?:\/\//.test(databaseUrl)) {
    throw new ConfigError(
      'DATABASE_URL must start with postgres:// or postgresql://, or be unset for the embedded database.',
    );
  }
  const redisUrl = text(env, 'REDIS_URL');
  if (redisUrl && !/^rediss?:\/\//.test(redisUrl)) {
    throw new ConfigError('REDIS_URL must start with redis:// or rediss://, or be unset.');
  }
  const workers = integer(env, 'WORKERS', 1, 1, 64);
  if (workers > 1 && !redisUrl) {
    throw new ConfigError(
      'WORKERS above 1 needs REDIS_URL, where the workers count rate limits together: set it, or leave WORKERS at 1.',
    );
  }
  const secretKey = text(env, 'SECRET_KEY');
  if (secretKey && !/^[0-9a-f]{64}$/i.test(secretKey)) {
    throw new ConfigError('SECRET_KEY must be 64 hexadecimal characters (try: openssl rand -hex 32), or be unset.');
  }
  const logLevel = text(env, 'LOG_LEVEL') ?? 'info';
  if (!logLevels.includes(logLevel)) throw new ConfigError(`LOG_LEVEL must be one of ${logLevels.join(', ')}.`);
  const trustedProxies = (text(env, 'TRUSTED_PROXIES') ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);
  for (const proxy of trustedProxies) {
    if (!isAddressRange(proxy)) {
      throw new ConfigError(
        `TRUSTED_PROXIES must list IP addresses or CIDR ranges, separated by commas; "${proxy}" is neither.`,
      );
    }
  }
  const authUrl = url(env, 'AUTH_URL') ?? `${baseUrl}/auth/v1`;
  return {
    port,
    host,
    baseUrl,
    authUrl,
    dashboardUrl: url(env, 'DASHBOARD_URL') ?? baseUrl,
    dataDir: resolve(text(env, 'DATA_DIR') ?? '.data'),
    databaseUrl,
    databasePool: integer(env, 'DATABASE_POOL', 10, 1, 200),
    databasePrepare: flag(env, 'DATABASE_PREPARE', true),
    redisUrl,
    workers,
    metricsPort: text(env, 'METRICS_PORT') ? integer(env, 'METRICS_PORT', 0, 0, 65_535) : undefined,
    trustedProxies,
    logLevel,
    demo: flag(env, 'DEMO', databaseUrl === undefined),
    oauth: oauthSettings(env, authUrl),
    anonKey: text(env, 'ANON_KEY'),
    secretKey: secretKey?.toLowerCase(),
    onboardingPerHour: integer(env, 'ONBOARDING_PER_HOUR', 5, 1, 1_000_000),
  };
}

function oauthSettings(env: Record<string, string | undefined>, authUrl: string): OAuthSettings {
  const issuer = exactUrl(env, 'OAUTH_ISSUER') ?? authUrl;
  const usual = issuer === authUrl ? undefined : `${issuer.replace(/\/+$/, '')}/.well-known/jwks.json`;
  return {
    issuer,
    jwksUri: exactUrl(env, 'OAUTH_JWKS_URI') ?? usual,
    audience: text(env, 'OAUTH_EXPECTED_AUDIENCE'),
  };
}

function text(env: Record<string, string | undefined>, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

function integer(
  env: Record<string, string | undefined>,
  name: string,
  fallback: number,
  least: number,
  most: number,
): number {
  const value = text(env, name);
  if (value === undefined) return fallback;
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < least || number > most) {
    throw new ConfigError(`${name} must be a whole number from ${least} to ${most}; it is "${value}".`);
  }
  return number;
}

function flag(env: Record<string, string | undefined>, name: string, fallback: boolean): boolean {
  const value = text(env, name);
  if (value === undefined) return fallback;
  if (value === '1' || value === 'true') return true;
  if (value === '0' || value === 'false') return false;
  throw new ConfigError(`${name} must be 1 or 0; it is "${value}".`);
}

function url(env: Record<string, string | undefined>, name: string): string | undefined {
  return exactUrl(env, name)?.replace(/\/+$/, '');
}

/** As it was written: tokens are compared with it, and some issuers end in a slash. */
function exactUrl(env: Record<string, string | undefined>, name: string): string | undefined {
  const value = text(env, name);
  if (value === undefined) return undefined;
  if (!URL.canParse(value) || !/^https?:$/.test(new URL(value).protocol)) {
    throw new ConfigError(`${name} must be an http or https address; it is "${value}".`);
  }
  return value;
}
