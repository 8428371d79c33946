// The services of handlers, bound to one call.
import type { PaymentProvider } from '../../domain/billing/provider.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import type { Calendars } from '../../domain/scheduling/calendars.ts';
import type { ModuleState } from '../credentials/authorization.ts';
import type { CredentialStore } from '../credentials/credential-store.ts';
import { type AccessQuestion, type ExplainedAccess, explainAccess } from '../credentials/explanation.ts';
import type { Secrets } from '../credentials/secrets.ts';
import type { SessionTokens } from '../credentials/session-tokens.ts';
import type { SignedTokens } from '../credentials/signed-tokens.ts';
import type { Files } from '../files/files.ts';
import type { CallServices, InboundUrls, NestedOperations } from '../handler.ts';
import { admitToQuota } from '../limits/quota.ts';
import type { QuotaLedger } from '../limits/quota-ledger.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import type { Document } from '../openapi/document.ts';
import type { PreparedBody } from '../openapi/prepared-body.ts';
import type { OutgoingClient } from '../outbound/client.ts';
import type { Cursors } from '../paging.ts';
import { type CallContext, requireVerified } from './call-database.ts';
import type { FeedNotifier } from './feed-notifier.ts';
import type { RequestDatabase } from './request-database.ts';
import { admit } from './trace.ts';
import type { WorkspaceCache } from './workspace-cache.ts';

/** The parts of the server that calls use. */
export interface CallParts {
  document: Document;
  database: RequestDatabase;
  credentials: CredentialStore;
  quota: QuotaLedger;
  workspaces: WorkspaceCache;
  cursors: Cursors;
  signedTokens: SignedTokens;
  sessionTokens: SessionTokens;
  limits: RateLimits;
  getModuleState: ModuleState;
  news: FeedNotifier;
  /** True if there is a mail server. */
  mailIsSent: boolean;
  files: Files;
  secrets: Secrets;
  outgoing: OutgoingClient;
  payments: PaymentProvider;
  calendars: Calendars;
  inboundUrls(companyId: string, environment: 'live' | 'test'): InboundUrls;
}

/** The services that differ between a separate call and one inside another transaction. */
export interface ServicesOfCall {
  /** Absent for operations that cannot run others. */
  nested?: () => NestedOperations;
  /** Returns the configuration that the transaction has changed; undefined if it has not. */
  workspace?: () => Promise<Workspace> | undefined;
}

export class BoundServices implements CallServices {
  readonly #parts: CallParts;
  readonly #context: CallContext;
  readonly #withoutConnection: <T>(work: Promise<T>) => Promise<T>;
  readonly #own: ServicesOfCall;
  #nested: NestedOperations | undefined;

  constructor(
    parts: CallParts,
    context: CallContext,
    withoutConnection: <T>(work: Promise<T>) => Promise<T>,
    own: ServicesOfCall,
  ) {
    this.#own = own;
    this.#parts = parts;
    this.#context = context;
    this.#withoutConnection = withoutConnection;
  }

  loadWorkspace(): Promise<Workspace> {
    const { caller, configVersion } = this.#context;
    const changed = this.#own.workspace?.();
    if (changed) return changed;
    return this.#parts.workspaces.get(caller.companyId, configVersion);
  }

  get nested(): NestedOperations {
    const { nested } = this.#own;
    if (!nested) throw new Error('an operation inside another transaction cannot run others');
    // One for the whole call, so that reads see the configuration that earlier operations changed.
    this.#nested ??= nested();
    return this.#nested;
  }

  get files(): Files {
    return this.#parts.files;
  }

  get cursors(): Cursors {
    return this.#parts.cursors;
  }

  get signedTokens(): SignedTokens {
    return this.#parts.signedTokens;
  }

  get sessionTokens(): SessionTokens {
    return this.#parts.sessionTokens;
  }

  get secrets(): Secrets {
    return this.#parts.secrets;
  }

  get outbound(): OutgoingClient {
    requireVerified(this.#context);
    return this.#parts.outgoing;
  }

  get payments(): PaymentProvider {
    requireVerified(this.#context);
    return this.#parts.payments;
  }

  get calendars(): Calendars {
    requireVerified(this.#context);
    return this.#parts.calendars;
  }

  get inboundUrls(): CallParts['inboundUrls'] {
    return this.#parts.inboundUrls;
  }

  get openApiDocument(): PreparedBody {
    return this.#parts.document.body;
  }

  get operations(): Document['operations'] {
    return this.#parts.document.operations;
  }

  explainAccess(question: AccessQuestion): Promise<ExplainedAccess | undefined> {
    const { caller, arrivedAt } = this.#context;
    const operation = this.operations.find(({ id }) => id === question.operationId);
    if (!operation) throw new Error(`there is no operation ${question.operationId}`);
    return explainAccess(this.#parts, caller, operation, question, arrivedAt);
  }

  requireSubscription(): Promise<void> {
    const { caller, now } = this.#context;
    const lastPeriod = () => this.#withoutConnection(this.#parts.quota.findFigures(caller.companyId));
    return admitToQuota({ unpaid: false }, caller.ofUser, undefined, lastPeriod, now);
  }

  get sendsMail(): boolean {
    return this.#parts.mailIsSent;
  }

  waitForFeed(after: number, milliseconds: number): Promise<number> {
    const { caller, trace } = this.#context;
    return this.#withoutConnection(this.#parts.news.wait(caller, after, milliseconds, trace.connection));
  }

  flushUsage(): Promise<void> {
    const { quota, credentials } = this.#parts;
    const { companyId } = this.#context.caller;
    return this.#withoutConnection(
      Promise.all([quota.flush(companyId), credentials.flushUses()]).then(() => undefined),
    );
  }

  get limitsAreLocal(): boolean {
    return this.#parts.limits.isLocal;
  }

  rejectGuessing(email: string): void {
    const blocked = this.#parts.limits.refusalOfAccount(email, Date.now());
    if (blocked) admit({ ...blocked, allowed: false }, this.#context.trace);
  }

  async countWrongPassword(email: string): Promise<void> {
    const verdict = await this.#parts.limits.takeWrongPassword(email, Date.now());
    if (!verdict.allowed) admit(verdict, this.#context.trace);
  }
}
