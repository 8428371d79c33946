// Task types of a workspace. Reads use its cached configuration, without a statement.
import type { Handler } from '../../runtime/handler.ts';
import { selectPage } from '../../runtime/paging.ts';

export const listTaskTypes: Handler<'listTaskTypes'> = async (call) => {
  const { taskTypes } = await call.services.loadWorkspace();
  const { rows, ...rest } = selectPage(call, ['task types'], taskTypes, (type) => type.id);
  const shown = rows.map(({ id, name, isActive, position }) => ({
    id,
    name,
    is_active: isActive,
    order_position: position,
  }));
  return { status: 200, data: { task_types: shown, ...rest } };
};
