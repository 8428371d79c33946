// Converts notes to API responses.
import type { components } from '../../generated/api.ts';

interface StoredNote {
  id: string;
  object: string;
  recordId: string;
  content: string;
  createdAt: Date;
  updatedAt: Date;
}

export function toNoteResponse(
  row: StoredNote,
  createdBy: components['schemas']['Actor'],
): components['schemas']['Note'] {
  return {
    id: row.id,
    object: row.object,
    record_id: row.recordId,
    content: row.content,
    created_by: createdBy,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
