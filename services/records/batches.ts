// The outcome of write batches.
import type { components } from '../../generated/api.ts';
import { batchRefused } from '../../runtime/errors.ts';

type Failure = components['schemas']['RecordBatchFailure'];

/** @throws ApiError 422 that lists the failures, if the batch is atomic */
export function rejectFailedBatch(atomic: boolean, failed: readonly Failure[], items: number): void {
  if (atomic && failed.length > 0)
    throw batchRefused(
      failed.toSorted((a, b) => a.index - b.index),
      items,
    );
}
