// Whether the service works.
import type { Handler } from '../../runtime/handler.ts';

/** The version of the API that this server speaks. */
const version = '1.0.0';

export const getHealth: Handler<'getHealth'> = async (call) => {
  await call.db.ping();
  return {
    status: 200,
    data: { status: call.services.limitsAreLocal ? 'degraded' : 'ok', version, timestamp: call.now.toISOString() },
  };
};
