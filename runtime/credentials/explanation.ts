// Explains access: runs the checks of a call for another credential, without the call.
import type { Caller } from '../caller.ts';
import { admitToQuota } from '../limits/quota.ts';
import type { QuotaLedger } from '../limits/quota-ledger.ts';
import type { Operation } from '../openapi/document.ts';
import { AccessReport, type CheckedAccess } from './access-checks.ts';
import { judgeKey, judgeUser } from './authentication.ts';
import { authorize, type ModuleState } from './authorization.ts';
import type { CredentialStore, Subscription } from './credential-store.ts';

/** The credential that a question is about. */
type JudgedCredential = { kind: 'api_key' | 'user'; id: string } | { kind: 'caller' };

export interface AccessQuestion {
  credential: JudgedCredential;
  operationId: string;
  /** Values of the path's parameters that scopes name. */
  path: Record<string, string>;
  /** undefined: the address is not judged. */
  ip: string | undefined;
}

/** Further checks are added to the report. */
export interface ExplainedAccess {
  /** The judged caller as the operation would see it; undefined if its credential is not valid. */
  caller: Caller | undefined;
  report: Pick<AccessReport, 'begin' | 'pass' | 'follow' | 'error'> & { list(): CheckedAccess[] };
}

export interface ExplanationParts {
  credentials: CredentialStore;
  quota: QuotaLedger;
  getModuleState: ModuleState;
}

/** A credential before it is judged. */
interface Subject {
  judge(report: AccessReport): Caller;
  /** undefined for users in the console, whose calls are not counted. */
  subscription: Subscription | undefined;
}

/**
 * Runs the checks that admit a call. Nothing is counted or charged.
 * @param asker the caller that asks
 * @returns undefined if the workspace has no such credential
 */
export async function explainAccess(
  parts: ExplanationParts,
  asker: Caller,
  operation: Operation,
  question: AccessQuestion,
  now: Date,
): Promise<ExplainedAccess | undefined> {
  const subject = await findSubject(parts, asker, question, now);
  if (!subject) return undefined;
  const report = new AccessReport();
  if (operation.requirements.length === 0) {
    report.pass('The operation is public: it needs no credential.');
    return { caller: undefined, report };
  }
  let caller: Caller | undefined;
  await report.follow(() => {
    caller = subject.judge(report);
    authorize(operation, caller, question.path, parts.getModuleState, report);
  });
  await report.follow(async () => {
    report.begin('plan');
    const lastPeriod = () => parts.quota.findFigures(asker.companyId);
    await admitToQuota(operation, subject.subscription, undefined, lastPeriod, now);
    report.pass(
      subject.subscription ? 'The subscription allows calls.' : 'Calls of signed-in users need no subscription.',
    );
  });
  return { caller, report };
}

async function findSubject(
  { credentials }: ExplanationParts,
  asker: Caller,
  { credential, ip }: AccessQuestion,
  now: Date,
): Promise<Subject | undefined> {
  const { companyId, actor, kind, userId, requestId, userAgent } = asker;
  const facts = { requestId, userAgent, ip: ip ?? asker.ip };
  // A key that asks about itself is judged as any other key. So is a user in the console.
  const keyId = credential.kind === 'api_key' ? credential.id : kind === 'api_key' ? actor.id : undefined;
  const user = credential.kind === 'user' ? credential.id : kind === 'person' ? userId : null;
  if (credential.kind !== 'user' && keyId !== undefined) {
    const key = await credentials.findKeyById(companyId, keyId);
    if (!key) return undefined;
    return {
      subscription: key.subscription,
      judge(report) {
        if (ip === undefined) report.skip('ip_allowlist', 'No address was given, so the allowlist is not judged.');
        return judgeKey(key, facts, ip, now, report);
      },
    };
  }
  const judgeAs = (judge: (report: AccessReport) => Caller) => (report: AccessReport) => {
    const caller = judge(report);
    report.begin('ip_allowlist');
    report.pass('Only API keys have an allowlist.');
    return caller;
  };
  if (user !== null) {
    const person = await credentials.findPerson(companyId, user);
    if (!person) return undefined;
    return { subscription: undefined, judge: judgeAs((report) => judgeUser(person, facts, report)) };
  }
  const company = await credentials.findCompany(companyId);
  return company && { subscription: company.subscription, judge: judgeAs(() => ({ ...asker })) };
}
