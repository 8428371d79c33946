// Inbound reports of gateways, and the secrets that sign them.
import {
  type Environment,
  type InboundSecretRow,
  listInboundSecrets,
  putInboundSecret,
} from '../../db/messaging/inbound-secrets.ts';
import { isActiveUser } from '../../db/people/users.ts';
import { readReport } from '../../domain/messaging/reports.ts';
import type { components } from '../../generated/api.ts';
import { validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { newSigningSecret } from '../../runtime/outbound/signed-posts.ts';
import { receiveReport } from '../../services/messaging/received-reports.ts';

const hourMilliseconds = 3_600_000;

export const getInboundSettings: Handler<'getInboundSettings'> = async (call) => {
  const rows = await listInboundSecrets(call.db.sql, call.caller.companyId);
  const door = (environment: Environment) =>
    toInboundResponse(
      call,
      environment,
      rows.find((row) => row.environment === environment),
    );
  return { status: 200, data: { inbound: { live: door('live'), test: door('test') } } };
};

export const rotateInboundSecret: Handler<'rotateInboundSecret'> = async (call) => {
  const { caller, now } = call;
  const { sql } = call.db;
  const { environment, overlap_hours: hours } = call.request.body ?? { environment: 'live', overlap_hours: 24 };
  const until = hours === 0 ? null : new Date(now.getTime() + hours * hourMilliseconds);
  const secret = newSigningSecret();
  const sealed = { environment, sealedSecret: call.services.secrets.encrypt(secret), secretLast4: secret.slice(-4) };
  const row = await putInboundSecret(sql, caller.companyId, sealed, until, now);
  call.db.record({ action: 'inbound.rotate_secret', object: 'inbound', metadata: { environment } });
  return { status: 200, data: { inbound: toInboundResponse(call, environment, row), secret } };
};

export const receiveInboundReport: Handler<'receiveInboundReport'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const { country } = await call.services.loadWorkspace();
  const read = readReport(body, country, now);
  if ('problems' in read) throw validationFailed(read.problems, 400);
  const { user_id: userId, ...report } = read.report;
  // A call report is stored even if its user has left.
  const isUser = userId !== undefined && (await isActiveUser(sql, caller.companyId, { id: userId }));
  const by = isUser ? { user_id: userId.toLowerCase() } : {};
  const { received, changes } = await receiveReport(sql, caller, 'generic', { ...report, ...by }, now);
  for (const change of changes) call.db.record(change);
  return {
    status: 200,
    data: { received: true, id: received.id, object: received.object, record_id: received.recordId },
  };
};

function toInboundResponse(
  { caller, now, services: { inboundUrls } }: Pick<Call, 'caller' | 'now' | 'services'>,
  environment: Environment,
  row: InboundSecretRow | undefined,
): components['schemas']['InboundDoor'] {
  const until = row?.previousSecretExpiresAt;
  return {
    secret_last4: row?.secretLast4 ?? null,
    created_at: row?.createdAt.toISOString() ?? null,
    previous_secret_expires_at: until && until > now ? until.toISOString() : null,
    urls: inboundUrls(caller.companyId, environment),
  };
}
