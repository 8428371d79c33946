// The kinds of task of a workspace; they come with its configuration, so that reading them needs no statement.
import type { Handler } from '../runtime/handler.ts';

export const listTaskTypes: Handler<'listTaskTypes'> = async (call) => {
  const { taskTypes } = await call.workspace();
  return {
    status: 200,
    data: {
      task_types: taskTypes.map(({ id, name, isActive, position }) => ({
        id,
        name,
        is_active: isActive,
        order_position: position,
      })),
      next_cursor: null,
      has_more: false,
    },
  };
};
