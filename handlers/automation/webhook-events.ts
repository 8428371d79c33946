// The catalog of events.
import { eventCatalogue } from '../../domain/automation/event-catalogue.ts';
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';

export const listWebhookEvents: Handler<'listWebhookEvents'> = async (call) => {
  const { rows, ...rest } = selectPage(call, ['webhook events'], eventCatalogue, ({ name }) => name);
  const events = rows.map(({ fields, schema, example, ...event }) => ({
    ...event,
    fields: [...fields],
    schema: { ...schema },
    example: { ...example },
  }));
  return { status: 200, data: { events, ...rest } };
};
