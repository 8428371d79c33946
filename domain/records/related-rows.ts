// What hangs on records, as the API shows it: notes, links and attachments.
import type { components } from '../../generated/api.ts';

type Schemas = components['schemas'];
type Actor = Schemas['Actor'];

interface OnRecord {
  id: string;
  object: string;
  recordId: string;
  createdBy: Actor;
  createdAt: Date;
}

export function showNote(note: OnRecord & { content: string; updatedAt: Date }): Schemas['Note'] {
  return {
    id: note.id,
    object: note.object,
    record_id: note.recordId,
    content: note.content,
    created_by: note.createdBy,
    created_at: note.createdAt.toISOString(),
    updated_at: note.updatedAt.toISOString(),
  };
}

interface ShownFile extends OnRecord {
  fileName: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
}

export function showAttachment(attachment: ShownFile, testMode: boolean): Schemas['Attachment'] {
  return {
    id: attachment.id,
    object: attachment.object,
    record_id: attachment.recordId,
    file_name: attachment.fileName,
    content_type: attachment.contentType,
    size_bytes: attachment.sizeBytes,
    sha256: attachment.sha256,
    uploaded_by: attachment.createdBy,
    test_mode: testMode,
    created_at: attachment.createdAt.toISOString(),
  };
}

interface WholeLink {
  id: string;
  /** The name as seen from the `from` side. */
  linkType: string;
  fromObject: string;
  fromId: string;
  toObject: string;
  toId: string;
  createdBy: Actor;
  createdAt: Date;
}

/** A link with both of its records, as exports have it. */
export function showLink(link: WholeLink) {
  return {
    id: link.id,
    link_type: link.linkType,
    from_object: link.fromObject,
    from_id: link.fromId,
    to_object: link.toObject,
    to_id: link.toId,
    created_by: link.createdBy,
    created_at: link.createdAt.toISOString(),
  };
}
