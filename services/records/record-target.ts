// The target of record writes, and the parts of a call that they need.
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { notFound } from '../../runtime/errors.ts';
import type { Call, CallDatabase, CallServices } from '../../runtime/handler.ts';

/** What record writes need of a call, or of a job that writes as a caller. */
export interface WriteCall extends Pick<Call, 'caller' | 'now' | 'currentTime'> {
  db: Pick<CallDatabase, 'sql' | 'record' | 'awaitAtCommit'>;
}

/** The target of a record write. */
export interface RecordTarget {
  workspace: Workspace;
  object: WorkspaceObject;
  /** The path of the fields in the body, for error messages. Absent: the root. */
  inside?: string;
}

/** @throws ApiError 404 if the object does not exist or is disabled in this workspace */
export async function openObject(call: {
  request: { path: { object: string } };
  services: Pick<CallServices, 'loadWorkspace'>;
}): Promise<RecordTarget> {
  const workspace = await call.services.loadWorkspace();
  const object = workspace.objects.get(call.request.path.object);
  if (!object) throw notFound();
  return { workspace, object };
}
