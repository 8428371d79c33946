// Runs operations inside the transaction of another call, one after the other.
import { isConfigurationChanged } from '../../db/client/preconditions.ts';
import { getScopeModule } from '../../domain/access/scopes.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { Caller } from '../caller.ts';
import { authorize, requireScope } from '../credentials/authorization.ts';
import type { NestedOperation, NestedOperations, NestedOutcome, NestedRequest } from '../handler.ts';
import type { Operation } from '../openapi/document.ts';
import type { Router } from '../openapi/router.ts';
import type { BoundDatabase } from './call-database.ts';
import type { CallParts } from './call-services.ts';
import { CallState } from './call-state.ts';
import type { Deadline } from './deadline.ts';
import type { Failures } from './failures.ts';
import { createTrace, type Trace } from './trace.ts';
import { checkBody, checkParameters, toValidationError } from './validation.ts';

export interface NestedParts extends CallParts {
  /** By operationId. */
  handlers: Readonly<Record<string, (call: never) => Promise<unknown>>>;
}

/** The call whose transaction the operations use. */
export interface OuterCall {
  caller: Caller;
  configVersion: number;
  now: Date;
  deadline: Deadline;
  trace: Trace;
  db: () => BoundDatabase;
}

export class NestedCalls {
  readonly #parts: NestedParts;
  readonly #failures: Failures;
  readonly #route: Router;

  constructor(parts: NestedParts, failures: Failures, route: Router) {
    this.#parts = parts;
    this.#failures = failures;
    this.#route = route;
  }

  /** Returns the operations of one call. They see the configuration that earlier ones changed. */
  bind(outer: OuterCall): NestedOperations {
    let changed: Promise<Workspace> | undefined;
    return {
      find: (method, path) => this.#find(method, path),
      authorize: ({ method, path, scopes, caller }) => this.#authorize(method, path, scopes, { ...caller }),
      run: async (request) => {
        const outcome = await this.#run(outer, request, () => changed);
        // Settings are read again after any write to them; a rollback to a savepoint also drops them.
        if (request.reloads) changed = this.#parts.workspaces.loadIn(outer.db().sql, outer.caller.companyId);
        await changed;
        return outcome;
      },
      forget: () => {
        changed = undefined;
      },
    };
  }

  #find(method: string, path: string): NestedOperation | undefined {
    const route = this.#route(method, path);
    if (route.kind !== 'operation') return undefined;
    const { id, dryRun, reads, headerParameters, requirements } = route.operation;
    const scopes = requirements.find(({ scheme }) => scheme === 'apiKey')?.scopes ?? [];
    return {
      operationId: id,
      template: route.operation.path,
      parameters: route.path,
      isWrite: dryRun,
      isRead: Boolean(reads),
      modules: scopes.map((scope) =>
        getScopeModule(scope.replace(/^\{(\w+)\}/, (_, name: string) => route.path[name] ?? '')),
      ),
      // Responses that no cache may store have secrets, too.
      hasSecret: route.operation.secretAnswer || route.operation.cacheControl !== undefined,
      takesPassword: route.operation.hashesPassword,
      takesIfMatch: headerParameters.includes('If-Match'),
      takesDryRun: route.operation.takesDryRun,
    };
  }

  #authorize(method: string, path: string, scopes: readonly string[], caller: Caller): void {
    const route = this.#route(method, path);
    if (route.kind !== 'operation') return;
    if (route.operation.requirements.length > 0)
      authorize(route.operation, caller, route.path, this.#parts.getModuleState);
    for (const scope of scopes) requireScope(scope, caller, this.#parts.getModuleState);
  }

  /**
   * Runs an operation in a savepoint. If it fails, its writes are rolled back and its error is
   * returned.
   * @throws if the database or the configuration failed, so that the outer call must fail, too
   */
  async #run(
    outer: OuterCall,
    { method, path, query = '', body, ifMatch, problems, caller: by }: NestedRequest,
    workspace: () => Promise<Workspace> | undefined,
  ): Promise<NestedOutcome> {
    const route = this.#route(method, path);
    if (route.kind !== 'operation') throw new Error(`${method} ${path} is no operation`);
    const { operation } = route;
    const { sql, transaction } = outer.db();
    // Dry: nothing in it may act outside of the transaction, which can be rolled back.
    const trace = createTrace({
      requestId: outer.trace.requestId,
      operation: operation.id,
      caller: by,
      testMode: by.testMode,
      dryRun: true,
      oauth: false,
      invite: undefined,
      connection: outer.trace.connection,
    });
    await sql`savepoint nested_operation`;
    try {
      const caller = { ...by };
      if (operation.requirements.length > 0) authorize(operation, caller, route.path, this.#parts.getModuleState);
      const call = this.#prepare(
        outer,
        operation,
        route.path,
        { query, body, ifMatch, problems },
        caller,
        trace,
        workspace,
      );
      const handler = this.#parts.handlers[operation.id];
      if (!handler) throw new Error(`no handler for ${operation.id}`);
      const result = (await handler(call as never)) as { status: number; data?: unknown; etag?: string };
      await call.db.settle();
      // In one message. If a constraint fails, the others fail too.
      await Promise.all([
        sql`set constraints all immediate`,
        sql`set constraints all deferred`,
        sql`release savepoint nested_operation`,
      ]);
      return {
        status: result.status,
        data: result.data,
        etag: result.etag,
        changes: call.db.changes,
        callbacks: call.db.callbacks,
        scopes: [...call.required],
      };
    } catch (error) {
      if (transaction?.broken || isConfigurationChanged(error)) throw error;
      const failed = this.#failures.traceError(error, trace);
      if (failed.status >= 500) throw error;
      await sql`rollback to savepoint nested_operation`;
      await sql`release savepoint nested_operation`;
      return { error: failed };
    }
  }

  #prepare(
    outer: OuterCall,
    operation: Operation,
    path: Record<string, string>,
    { query, body, ifMatch, problems: known }: Pick<NestedRequest, 'body' | 'ifMatch' | 'problems'> & { query: string },
    caller: Caller,
    trace: Trace,
    workspace: () => Promise<Workspace> | undefined,
  ): CallState {
    const headers = ifMatch === undefined ? {} : { 'if-match': ifMatch };
    const parameters = checkParameters(operation, path, query, headers);
    const given = operation.takesBody ? structuredClone(body) : undefined;
    const isMissing = given === undefined && !operation.bodyRequired;
    const problems = known ?? (operation.takesBody && !isMissing ? checkBody(operation, given) : []);
    const receivesProblems = operation.uniformRefusal || operation.tenantFields;
    if (problems.length > 0 && !receivesProblems) throw toValidationError(operation, [...problems], 'body');
    const checked = { parameters, body: given, problems, file: undefined, claim: undefined };
    const call = new CallState(
      this.#parts,
      trace,
      operation,
      caller,
      outer.configVersion,
      checked,
      outer.now,
      outer.deadline,
      { workspace },
    );
    call.join(outer.db());
    return call;
  }
}
