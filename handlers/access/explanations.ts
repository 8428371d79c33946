// Explains access: the checks of a call for a credential, then those of its record and field.
import { findUser } from '../../db/people/users.ts';
import { hasRecord } from '../../db/records/records.ts';
import { buildFieldProblem } from '../../domain/objects/field-values.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { Workspace, WorkspaceObject } from '../../domain/objects/workspace.ts';
import { findUnknownFieldProblems, isVisible } from '../../domain/records/reading.ts';
import { checkRecord } from '../../domain/records/values.ts';
import type { Caller } from '../../runtime/caller.ts';
import { ApiError, type FieldProblem, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';

type ExplainCall = Call<'checkAccess'>;
type Body = ExplainCall['request']['body'];
type Operation = ExplainCall['services']['operations'][number];

/** A question without problems. */
interface Question {
  operation: Operation;
  /** The object whose records the operation is about; undefined for other operations. */
  object: WorkspaceObject | undefined;
}

export const checkAccess: Handler<'checkAccess'> = async (call) => {
  const { body } = call.request;
  const workspace = await call.services.loadWorkspace();
  const { operation, object } = readQuestion(body, call.services.operations, workspace);
  const explained = await call.services.explainAccess({
    credential: await findCredential(call),
    operationId: operation.id,
    path: body.object === undefined ? {} : { object: body.object },
    ip: body.ip,
  });
  const { caller, report } = orNotFound(explained);
  if (caller && object) await report.follow(() => judgeObject(call, caller, object, workspace, report));
  if (object && body.field !== undefined) {
    const { field } = body;
    await report.follow(() => judgeField(operation, object, field, workspace, call.now, report));
  }
  const { error } = report;
  return {
    status: 200,
    data: {
      allowed: error === undefined,
      operation: operation.id,
      error: error
        ? { status: error.status, code: error.code, ...(error.details ? { details: error.details } : {}) }
        : null,
      checks: report.list(),
    },
  };
};

/** @throws ApiError 404 for a user that the asker does not see */
async function findCredential({ request: { body }, caller, db: { sql } }: ExplainCall) {
  if (body.api_key_id !== undefined) return { kind: 'api_key' as const, id: body.api_key_id };
  if (body.user_id === undefined) return { kind: 'caller' as const };
  orNotFound(await findUser(sql, caller, body.user_id));
  return { kind: 'user' as const, id: body.user_id };
}

/** The operations that the actions on records stand for. */
const operationOf = { view: 'listRecords', create: 'createRecord', edit: 'updateRecord', delete: 'deleteRecord' };

/** @throws ApiError 400 with every problem of the question, 422 for an unknown object */
function readQuestion(body: Body, operations: readonly Operation[], workspace: Workspace): Question {
  const problems: FieldProblem[] = [];
  const { operation: named, action, object: objectName } = body;
  if (body.api_key_id !== undefined && body.user_id !== undefined)
    problems.push(buildFieldProblem('user_id', 'CONFLICTING_FIELDS', 'cannot be sent with api_key_id'));
  if (named !== undefined && action !== undefined)
    problems.push(buildFieldProblem('action', 'CONFLICTING_FIELDS', 'cannot be sent with operation'));
  if (named === undefined && action === undefined)
    problems.push(buildFieldProblem('operation', 'REQUIRED', 'is required, or action and object'));
  const isRead = action === 'view' && body.record_id !== undefined;
  const id = named ?? (action && (isRead ? 'getRecord' : operationOf[action]));
  const operation = operations.find((each) => each.id === id);
  if (named !== undefined && !operation) {
    const meant = findClosest(
      named,
      operations.map((each) => each.id),
    );
    problems.push(
      buildFieldProblem('operation', 'INVALID_OPTION', 'must be the operationId of an operation', { meant }),
    );
  }
  if (operation) problems.push(...findMismatches(body, operation));
  const object = operation && workspace.objects.get(findObjectName(operation, objectName) ?? '');
  if (problems.length > 0) throw validationFailed(problems, 400);
  if (!operation) throw new Error('a question without problems names an operation');
  if (objectName !== undefined && !object) {
    const allowed = [...workspace.objects.keys()];
    const meant = findClosest(objectName, allowed);
    const rule = 'must be the name of an object that is enabled';
    throw validationFailed([buildFieldProblem('object', 'INVALID_OPTION', rule, { allowed, meant })], 422);
  }
  return { operation, object };
}

/** Returns problems of what the question names in addition to the operation. */
function findMismatches({ object, record_id: id, field }: Body, operation: Operation): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const isOfObject = operation.path.includes('{object}');
  if (isOfObject && object === undefined)
    problems.push(buildFieldProblem('object', 'REQUIRED', `is required for ${operation.id}`));
  const { objects: allowed } = operation;
  if (allowed && object !== undefined && !allowed.includes(object))
    problems.push(buildFieldProblem('object', 'INVALID_OPTION', `must be an object of ${operation.id}`, { allowed }));
  if (!isOfObject && object !== undefined)
    problems.push(buildFieldProblem('object', 'CONFLICTING_FIELDS', `is not in the path of ${operation.id}`));
  if (id !== undefined && !namesRecord(operation))
    problems.push(buildFieldProblem('record_id', 'CONFLICTING_FIELDS', `is not in the path of ${operation.id}`));
  if (field !== undefined && !(fieldOperations as readonly string[]).includes(operation.id)) {
    const rule = `is not judged for ${operation.id}; ask about action view, create or edit and an object`;
    problems.push(buildFieldProblem('field', 'CONFLICTING_FIELDS', rule));
  }
  return problems;
}

const fieldOperations = ['listRecords', 'getRecord', 'createRecord', 'updateRecord'] as const;

const recordPath = /^\/v1\/(?:objects\/\{object\}\/records|(leads|deals|customers|accounts|tasks|activities))\/\{id\}/;

const namesRecord = ({ path }: Operation): boolean => recordPath.test(path);

/** Returns the name of the object whose records an operation is about. */
function findObjectName({ path }: Operation, given: string | undefined): string | undefined {
  return path.includes('{object}') ? given : recordPath.exec(path)?.[1];
}

type Report = NonNullable<Awaited<ReturnType<ExplainCall['services']['explainAccess']>>>['report'];

/**
 * Judges whether the credential sees the record.
 * @throws ApiError 404 if it does not, or if the asker does not
 */
async function judgeObject(
  { caller: asker, request: { body }, db: { sql } }: ExplainCall,
  caller: Caller,
  { object }: WorkspaceObject,
  workspace: Workspace,
  report: Report,
): Promise<void> {
  const id = body.record_id;
  if (id === undefined) return;
  report.begin('reach');
  // A record that the asker does not see stays unknown to it, even if the judged credential sees it.
  const reach = asker.computeReach?.([`${object}:view`]) ?? asker.reach;
  const isShown = isVisible(object, workspace, asker) && (await hasRecord(sql, { ...asker, reach }, object, id));
  if (!isShown) throw new ApiError('NOT_FOUND', 'There is no such record among those that you can see.');
  // Both see records of their own mode only.
  const isOfMode = caller.testMode === asker.testMode;
  if (!isOfMode || !(await hasRecord(sql, caller, object, id))) throw notFound();
  report.pass('The record is among them.');
}

/** @throws ApiError 400 or 422 if the field does not exist, or the operation cannot write it */
function judgeField(
  operation: Operation,
  object: WorkspaceObject,
  field: string,
  workspace: Workspace,
  now: Date,
  report: Report,
): void {
  report.begin('field');
  const isRead = operation.id === 'listRecords' || operation.id === 'getRecord';
  const mode = operation.id === 'createRecord' ? 'create' : 'update';
  const problems = isRead
    ? findUnknownFieldProblems([field], object)
    : checkRecord(object, { [field]: null }, mode, workspace, now).problems.filter(
        (each) => each.field === field && aboutFields.has(each.code),
      );
  if (problems.length > 0) throw validationFailed(problems, isRead ? 400 : 422);
  report.pass(isRead ? 'The object has the field.' : 'The field can be written.');
}

/** Problems of a field that do not depend on its value. */
const aboutFields = new Set<FieldProblem['code']>(['UNKNOWN_FIELD', 'READ_ONLY', 'IMMUTABLE']);
