// The health of the service.
import type { Handler } from '../../runtime/handler.ts';

/** The version of the API on this server. */
const version = '1.0.0';

export const getHealth: Handler<'getHealth'> = async (call) => {
  await call.db.ping();
  return {
    status: 200,
    data: { status: call.services.limitsAreLocal ? 'degraded' : 'ok', version, timestamp: call.now.toISOString() },
  };
};
