// The caller's credential.
import type { Handler } from '../../runtime/handler.ts';

export const getMe: Handler<'getMe'> = async ({ caller }) => {
  const isSession = caller.kind === 'session' || caller.kind === 'person';
  return {
    status: 200,
    data: {
      actor: caller.actor,
      company: { id: caller.companyId, name: caller.companyName },
      environment: caller.testMode ? 'test' : 'live',
      scopes: isSession ? [] : [...caller.scopes],
      roles: isSession ? [...caller.scopes] : [],
      write_mode: caller.mustPropose ? 'propose' : 'direct',
      reach: { kind: caller.reach.kind, id: caller.reach.kind === 'company' ? null : caller.reach.id },
      expires_at: caller.expiresAt?.toISOString() ?? null,
      modules: [...caller.modules.keys()].filter((module) => caller.modules.get(module) === 'on'),
      limits: {
        rate_limit_per_minute: isSession ? null : caller.limits.perMinute,
        rate_limit_per_hour: isSession ? null : caller.limits.perHour,
      },
    },
  };
};
