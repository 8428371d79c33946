// Where records are written, and what their writers need of the call.
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { notFound } from '../../runtime/errors.ts';
import type { Call, CallServices } from '../../runtime/handler.ts';

export type Writing = Pick<Call, 'db' | 'caller' | 'now' | 'currentTime'>;

/** Where records are written. */
export interface Place {
  workspace: Workspace;
  object: WorkspaceObject;
  /** Where the fields stand in the body, for its problems; at its root unless it is given. */
  inside?: string;
}

/** @throws ApiError 404 for an object that this workspace does not have, or has switched off */
export async function openObject(call: {
  request: { path: { object: string } };
  services: Pick<CallServices, 'loadWorkspace'>;
}): Promise<Place> {
  const workspace = await call.services.loadWorkspace();
  const object = workspace.objects.get(call.request.path.object);
  if (!object) throw notFound();
  return { workspace, object };
}
