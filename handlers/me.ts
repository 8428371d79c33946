// What a credential is.
import type { Handler } from '../runtime/handler.ts';

export const getMe: Handler<'getMe'> = async ({ caller }) => {
  const isKey = caller.kind === 'api_key';
  return {
    status: 200,
    data: {
      actor: caller.actor,
      company: { id: caller.companyId, name: caller.companyName },
      environment: caller.testMode ? 'test' : 'live',
      scopes: isKey ? [...caller.scopes] : [],
      roles: isKey ? [] : [...caller.scopes],
      reach: { kind: caller.reach.kind, id: caller.reach.kind === 'company' ? null : caller.reach.id },
      expires_at: caller.expiresAt?.toISOString() ?? null,
      modules: [...caller.modules],
      limits: {
        rate_limit_per_minute: isKey ? caller.limits.perMinute : null,
        rate_limit_per_hour: isKey ? caller.limits.perHour : null,
      },
    },
  };
};
