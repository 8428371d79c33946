// Converts campaign runs to API responses.
import type { components } from '../../generated/api.ts';
import type { StoredRun } from './campaigns.ts';

/** @param counts the draft counts of the campaign */
export function toCampaignRunResponse(
  run: StoredRun,
  createdBy: components['schemas']['Actor'],
  counts: readonly { runId: string; status: string; count: number }[],
): components['schemas']['CampaignRun'] {
  const are = (status: 'sent' | 'failed'): number =>
    counts.filter((each) => each.runId === run.id && each.status === status).reduce((sum, { count }) => sum + count, 0);
  return {
    id: run.id,
    campaign_id: run.campaignId,
    status: run.status,
    total: run.total,
    skipped: run.skipped,
    sent: are('sent'),
    failed: are('failed'),
    started_at: run.startedAt?.toISOString() ?? null,
    finished_at: run.finishedAt?.toISOString() ?? null,
    error_summary: run.errorSummary,
    created_by: createdBy,
  };
}
