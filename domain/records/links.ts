// Converts links to the rows of exports, which have both records.
import type { components } from '../../generated/api.ts';

interface WholeLink {
  id: string;
  /** The name as seen from the `from` side. */
  linkType: string;
  fromObject: string;
  fromId: string;
  toObject: string;
  toId: string;
  createdBy: components['schemas']['Actor'];
  createdAt: Date;
}

export function toExportedLink(link: WholeLink) {
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
