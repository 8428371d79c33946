// The only place that reads environment variables. An invalid value stops the start with a message
// that says what to change.
import { resolve } from 'node:path';
import { isAddressRange } from './http/client-address.ts';

export interface Config {
  port: number;
  host: string;
  baseUrl: string;
  authUrl: string;
  dashboardUrl: string;
  dataDir: string;
  /** undefined: the server starts its own PostgreSQL in dataDir. */
  databaseUrl: string | undefined;
  /** Number of connections for tenants' transactions. */
  databasePool: number;
  /** False behind a transaction-mode pooler that does not keep prepared statements. */
  databasePrepare: boolean;
  /** True if the database is distributed over machines, for example by Citus. */
  databaseSpread: boolean;
  redisUrl: string | undefined;
  /** Number of processes that serve requests. */
  workers: number;
  /** The port for Prometheus; undefined: metrics are off. */
  metricsPort: number | undefined;
  trustedProxies: string[];
  /** Names of background jobs that this server does not run. */
  pausedJobs: string[];
  logLevel: string;
  /** False: requests are not recorded for their workspaces. */
  requestLog: boolean;
  demo: boolean;
  /** The issuer whose OAuth access tokens are accepted. */
  oauth: OAuthSettings;
  /** If set, the identity provider's routes require it in the header `apikey`. */
  anonKey: string | undefined;
  /** 64 hex characters; undefined: generated once and kept in dataDir. */
  secretKey: string | undefined;
  /** Storage of attachments; undefined: dataDir. */
  storage: S3Settings | undefined;
  /** Signups per IP and hour; the daily limit is four times as high. */
  onboardingPerHour: number;
  /** undefined: mails are stored and not sent. */
  mailServer: MailServer | undefined;
  /** Sender address of mails. */
  mailFrom: string;
  /** Provider of text messages; undefined: they are stored and not sent. */
  messagingProvider: MessagingProvider | undefined;
  /** For development: webhooks of test keys may use http and private addresses. */
  webhookAllowPrivate: boolean;
  /**
   * Users' calendars may use http and private addresses: for development, and for calendars in the
   * operator's own network.
   */
  calendarAllowPrivate: boolean;
  /** For development: client metadata of OAuth apps may be at private addresses. */
  oauthAllowPrivate: boolean;
  /** Payment provider of live workspaces; undefined: the test provider. */
  stripe: StripeSettings | undefined;
}

/** A Stripe account. */
interface StripeSettings {
  secretKey: string;
  /** Stripe signs its events with it. */
  webhookSecret: string;
  /** Base URL of the Stripe API, without a trailing slash; undefined: Stripe's own. */
  apiBase: string | undefined;
}

export interface MailServer {
  host: string;
  port: number;
  /**
   * TLS from the first byte. Otherwise STARTTLS if the server offers it; required if there is a
   * user.
   */
  secure: boolean;
  user: string | undefined;
  password: string | undefined;
  /** False: the server's certificate is not verified. */
  verify: boolean;
}

/** An account with Twilio or a compatible service. */
export interface MessagingProvider {
  kind: 'twilio';
  accountId: string;
  authToken: string;
  /** Without a trailing slash. http is for development only. */
  url: string;
}

/** An S3-compatible store. */
export interface S3Settings {
  /** Without a trailing slash. */
  endpoint: string;
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

interface OAuthSettings {
  issuer: string;
  /** undefined: this server issues the tokens and has the keys. */
  jwksUri: string | undefined;
  /** undefined: the audience of a token is not checked. */
  audience: string | undefined;
}

/** Thrown for an invalid setting. The message is for the operator. */
export class ConfigError extends Error {}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/**
 * Reads the settings.
 * @param env the environment, usually process.env
 * @throws ConfigError with the variable and its valid values
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
      'WORKERS above 1 requires REDIS_URL, which the workers use to share rate limits. Set REDIS_URL, or set WORKERS to 1.',
    );
  }
  const secretKey = text(env, 'SECRET_KEY');
  if (secretKey && !/^[0-9a-f]{64}$/i.test(secretKey)) {
    throw new ConfigError(
      'SECRET_KEY must be 64 hexadecimal characters (create one with: openssl rand -hex 32), or be unset.',
    );
  }
  const logLevel = text(env, 'LOG_LEVEL') ?? 'info';
  if (!logLevels.includes(logLevel)) throw new ConfigError(`LOG_LEVEL must be one of ${logLevels.join(', ')}.`);
  const trustedProxies = list(env, 'TRUSTED_PROXIES');
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
    databaseSpread: flag(env, 'DATABASE_SPREAD', false),
    redisUrl,
    workers,
    metricsPort: text(env, 'METRICS_PORT') ? integer(env, 'METRICS_PORT', 0, 0, 65_535) : undefined,
    trustedProxies,
    pausedJobs: list(env, 'PAUSED_JOBS'),
    logLevel,
    requestLog: flag(env, 'REQUEST_LOG', true),
    demo: flag(env, 'DEMO', databaseUrl === undefined),
    oauth: oauthSettings(env, authUrl),
    anonKey: text(env, 'ANON_KEY'),
    secretKey: secretKey?.toLowerCase(),
    storage: storageSettings(env),
    onboardingPerHour: integer(env, 'ONBOARDING_PER_HOUR', 5, 1, 1_000_000),
    mailServer: mailServer(env),
    mailFrom: mailFrom(env, baseUrl),
    messagingProvider: messagingProvider(env),
    webhookAllowPrivate: flag(env, 'WEBHOOK_ALLOW_PRIVATE', false),
    calendarAllowPrivate: flag(env, 'CALENDAR_ALLOW_PRIVATE', false),
    oauthAllowPrivate: flag(env, 'OAUTH_ALLOW_PRIVATE', false),
    stripe: stripeSettings(env),
  };
}

/** The values are secrets, so no message contains them. */
function stripeSettings(env: Record<string, string | undefined>): StripeSettings | undefined {
  const secretKey = text(env, 'STRIPE_SECRET_KEY');
  const webhookSecret = text(env, 'STRIPE_WEBHOOK_SECRET');
  const apiBase = url(env, 'STRIPE_API_BASE');
  if (secretKey === undefined) {
    if (webhookSecret !== undefined || apiBase !== undefined)
      throw new ConfigError(
        'STRIPE_WEBHOOK_SECRET and STRIPE_API_BASE require STRIPE_SECRET_KEY. Set it, or unset them.',
      );
    return undefined;
  }
  if (!/^(sk|rk)_\w+$/.test(secretKey))
    throw new ConfigError('STRIPE_SECRET_KEY must be a secret or restricted Stripe key (sk_… or rk_…).');
  if (!/^whsec_\w+$/.test(webhookSecret ?? ''))
    throw new ConfigError(
      'STRIPE_WEBHOOK_SECRET must be the signing secret (whsec_…) of the endpoint BASE_URL/v1/billing/provider-events.',
    );
  return { secretKey, webhookSecret: webhookSecret ?? '', apiBase };
}

function oauthSettings(env: Record<string, string | undefined>, authUrl: string): OAuthSettings {
  const issuer = exactUrl(env, 'OAUTH_ISSUER') ?? authUrl;
  const defaultJwksUri = issuer === authUrl ? undefined : `${issuer.replace(/\/+$/, '')}/.well-known/jwks.json`;
  return {
    issuer,
    jwksUri: exactUrl(env, 'OAUTH_JWKS_URI') ?? defaultJwksUri,
    audience: text(env, 'OAUTH_EXPECTED_AUDIENCE'),
  };
}

/** The value contains a password, so no message contains it. */
function mailServer(env: Record<string, string | undefined>): MailServer | undefined {
  const value = text(env, 'SMTP_URL');
  if (value === undefined) return undefined;
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const verify = parsed?.search === '' ? '1' : /^\?verify=([01])$/.exec(parsed?.search ?? '')?.[1];
  if (!parsed || !/^smtps?:$/.test(parsed.protocol) || !parsed.hostname || !/^\/?$/.test(parsed.pathname) || !verify) {
    throw new ConfigError(
      'SMTP_URL must be smtp://user:password@host:port or smtps://…. User and port are optional; ?verify=0 accepts any certificate.',
    );
  }
  const secure = parsed.protocol === 'smtps:';
  return {
    host: parsed.hostname.replace(/^\[|\]$/g, ''),
    port: parsed.port === '' ? (secure ? 465 : 587) : Number(parsed.port),
    secure,
    user: parsed.username === '' ? undefined : decodeURIComponent(parsed.username),
    password: parsed.password === '' ? undefined : decodeURIComponent(parsed.password),
    verify: verify === '1',
  };
}

function mailFrom(env: Record<string, string | undefined>, baseUrl: string): string {
  const value = text(env, 'MAIL_FROM') ?? `no-reply@${new URL(baseUrl).hostname}`;
  if (!/^[^\s@<>,;:"]+@[^\s@<>,;:"]+$/.test(value) && text(env, 'MAIL_FROM') !== undefined)
    throw new ConfigError(`MAIL_FROM must be an email address, e.g. crm@example.com; it is "${value}".`);
  return value;
}

/** The value is a secret, so no message contains it. */
function messagingProvider(env: Record<string, string | undefined>): MessagingProvider | undefined {
  const value = text(env, 'MESSAGING_URL');
  if (value === undefined) return undefined;
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const insecure = parsed?.search === '' ? '0' : /^\?insecure=([01])$/.exec(parsed?.search ?? '')?.[1];
  const { protocol, host, username, password, pathname } = parsed ?? {};
  if (protocol !== 'twilio:' || !host || !username || !password || !/^\/?$/.test(pathname ?? '') || !insecure)
    throw new ConfigError(
      'MESSAGING_URL must be twilio://ACCOUNT_SID:AUTH_TOKEN@api.twilio.com, or be unset. For development, ?insecure=1 uses http.',
    );
  return {
    kind: 'twilio',
    accountId: decodeURIComponent(username),
    authToken: decodeURIComponent(password),
    url: `${insecure === '1' ? 'http' : 'https'}://${host}`,
  };
}

/**
 * Parses s3://KEY:SECRET@HOST:PORT/BUCKET?region=…&tls=0 with percent-encoding. The value is a
 * secret, so no message contains it.
 */
function storageSettings(env: Record<string, string | undefined>): S3Settings | undefined {
  const value = text(env, 'STORAGE');
  if (value === undefined) return undefined;
  const wrong = new ConfigError(
    'STORAGE must be s3://KEY:SECRET@HOST[:PORT]/BUCKET, optionally with ?region=…&tls=0, or be unset for DATA_DIR.',
  );
  if (!/^s3:\/\//.test(value) || !URL.canParse(value)) throw wrong;
  const { host, username, password, pathname, searchParams } = new URL(value);
  const bucket = pathname.replace(/^\/|\/$/g, '');
  const tls = searchParams.get('tls') ?? '1';
  const known = [...searchParams.keys()].every((name) => name === 'region' || name === 'tls');
  if (!host || !username || !password || !/^[\w.-]+$/.test(bucket) || !/^[01]$/.test(tls) || !known) throw wrong;
  return {
    endpoint: `${tls === '1' ? 'https' : 'http'}://${host}`,
    bucket,
    region: searchParams.get('region') ?? 'us-east-1',
    accessKeyId: decodeURIComponent(username),
    secretAccessKey: decodeURIComponent(password),
  };
}

/** Splits a comma-separated value. */
function list(env: Record<string, string | undefined>, name: string): string[] {
  const parts = (text(env, name) ?? '').split(',').map((part) => part.trim());
  return parts.filter(Boolean);
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

/** Keeps the URL as written: issuers of tokens are compared exactly, and some end in a slash. */
function exactUrl(env: Record<string, string | undefined>, name: string): string | undefined {
  const value = text(env, name);
  if (value === undefined) return undefined;
  if (!URL.canParse(value) || !/^https?:$/.test(new URL(value).protocol)) {
    throw new ConfigError(`${name} must be an http or https URL; it is "${value}".`);
  }
  return value;
}
