// The OpenAPI document, in general and for one workspace.
import { getModuleState } from '../../domain/billing/plans.ts';
import { buildWorkspaceDocument } from '../../domain/objects/workspace-document.ts';
import type { Handler } from '../../runtime/handler.ts';

export const getOpenapiDocument: Handler<'getOpenapiDocument'> = async (call) => {
  const { caller } = call;
  const { query } = call.request;
  const { openApiDocument: document } = call.services;
  if (query.workspace !== true) return { status: 200, body: document };
  const { objects } = await call.services.loadWorkspace();
  const visible = [...objects.values()].filter(
    ({ module }) => caller.grants.allows(`${module}:view`) && getModuleState(module, caller.modules) === 'on',
  );
  const body = document.changed((content) => JSON.stringify(buildWorkspaceDocument(JSON.parse(content), visible)));
  return { status: 200, body };
};
