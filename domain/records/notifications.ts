// Kinds of notifications, and who may see them.
import type { components } from '../../generated/api.ts';

export type NotificationKind = components['schemas']['NotificationKind'];

/** The scopes of notifications that are not about a record. Only administrators see those of keys. */
export const scopesOfKinds = { import_finished: 'imports:view', webhook_failing: 'webhooks:view' } as const;
