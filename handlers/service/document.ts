// The document itself.
import type { Handler } from '../../runtime/handler.ts';

export const getOpenapiDocument: Handler<'getOpenapiDocument'> = async (call) => ({ status: 200, body: call.document });
