// A person's own password.
import { endUserSessions, findUserSignIn, updatePassword as storePassword } from '../../db/access/sessions.ts';
import { checkPassword, hashPassword } from '../../runtime/credentials/passwords.ts';
import { buildProblem, validationFailed } from '../../runtime/errors.ts';
import type { Handler } from '../../runtime/handler.ts';

export const updatePassword: Handler<'updatePassword'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { companyId, userId, sessionId } = caller;
  if (userId === null || sessionId === null) throw new Error('the document lets session tokens only in here');
  const found = await findUserSignIn(call.db.sql, companyId, userId);
  if (!found) throw new Error('the user of a session has a sign-in');
  call.services.rejectGuessing(found.email);
  if (!(await call.db.withoutConnection(checkPassword(body.current_password, found.passwordHash)))) {
    await call.services.countWrongPassword(found.email);
    throw validationFailed([buildProblem('current_password', 'RULE_FAILED', 'current_password is wrong')], 400);
  }
  if (body.password === body.current_password)
    throw validationFailed(
      [buildProblem('password', 'RULE_FAILED', 'password must differ from the current password')],
      400,
    );
  const passwordHash = await call.db.withoutConnection(hashPassword(body.password));
  await storePassword(call.db.sql, companyId, userId, passwordHash);
  await endUserSessions(call.db.sql, companyId, userId, now, sessionId);
  call.db.record({ action: 'user.password_change', object: 'users', recordId: userId });
  return { status: 200, data: { must_change_password: false } };
};
