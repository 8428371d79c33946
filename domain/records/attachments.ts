// Converts attachments to API responses.
import type { components } from '../../generated/api.ts';

interface StoredAttachment {
  id: string;
  object: string;
  recordId: string;
  fileName: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
  createdAt: Date;
}

export function toAttachmentResponse(
  row: StoredAttachment,
  uploadedBy: components['schemas']['Actor'],
  testMode: boolean,
): components['schemas']['Attachment'] {
  return {
    id: row.id,
    object: row.object,
    record_id: row.recordId,
    file_name: row.fileName,
    content_type: row.contentType,
    size_bytes: row.sizeBytes,
    sha256: row.sha256,
    uploaded_by: uploadedBy,
    test_mode: testMode,
    created_at: row.createdAt.toISOString(),
  };
}
