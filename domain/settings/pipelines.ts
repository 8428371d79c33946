// Pipelines of deals: the default one, the stages of each, and the stage that a deal starts in.
import type { Pipeline, Status } from '../objects/configuration.ts';
import type { Workspace } from '../objects/workspace.ts';

/** Returns the pipeline of deals that name none. */
export function getDefaultPipeline({ pipelines }: Pick<Workspace, 'pipelines'>): Pipeline {
  const pipeline = pipelines.find(({ isDefault }) => isDefault);
  if (!pipeline) throw new Error('every workspace has a default pipeline');
  return pipeline;
}

/** Returns the stages of a pipeline in their order. */
export function listStages(pipelineId: string, { statuses }: Pick<Workspace, 'statuses'>): readonly Status[] {
  return statuses.filter((status) => status.pipelineId === pipelineId);
}

/**
 * Returns the status of a new record that names none: the first active one.
 * @param pipelineId the pipeline of a deal; by default the default one
 */
export function findFirstStatus(object: string, workspace: Workspace, pipelineId?: string): Status | undefined {
  const statuses =
    object === 'deals'
      ? listStages(pipelineId ?? getDefaultPipeline(workspace).id, workspace)
      : workspace.statuses.filter((status) => status.object === object);
  return statuses.find(({ isActive }) => isActive);
}
