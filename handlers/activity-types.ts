// The kinds of activity of a workspace; they come with its configuration, so no statement is needed.
import type { Handler } from '../runtime/handler.ts';

export const listActivityTypes: Handler<'listActivityTypes'> = async (call) => {
  const { activityTypes } = await call.workspace();
  return {
    status: 200,
    data: {
      activity_types: activityTypes.map((type) => ({
        id: type.id,
        name: type.name,
        icon: type.icon,
        color: type.color,
        is_active: type.isActive,
        is_system: type.isSystem,
        order_position: type.position,
      })),
    },
  };
};
