// Lead intake: resolves names, rejects duplicates, and stores one lead.
import { type Assignee, findAssignee } from '../../db/sales/leads.ts';
import { getBuiltinObject, type Workspace } from '../../domain/objects/workspace.ts';
import type { NewRecord } from '../../domain/records/draft.ts';
import { toEtag } from '../../domain/records/version.ts';
import { checkLead } from '../../domain/sales/lead-intake.ts';
import type { components } from '../../generated/api.ts';
import { buildProblem } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { prepareNew, resolve, searchDuplicate } from '../../services/records/preparation.ts';
import { writeLead } from '../../services/records/record-writes.ts';

export const createLead: Handler<'createLead'> = async (call) => {
  const { caller, now } = call;
  const { body } = call.request;
  const { sql } = call.db;
  const workspace = await call.services.loadWorkspace();
  const place = { workspace, object: getBuiltinObject('leads', workspace) };
  const lead = checkLead(body, workspace, now);
  const refused = call.request.problems.length > 0 || lead.problems.length > 0;
  // Also runs for a body that will be rejected, so that an unknown assignee is reported with the
  // other problems.
  const [assignee, duplicate] = await Promise.all([
    findAssignee(sql, caller, lead.assigneeEmail),
    searchDuplicate(call, place, refused ? [] : lead.duplicates),
  ]);
  if (lead.assigneeEmail !== null && !assignee)
    lead.problems.push(
      buildProblem('assigned_to_email', 'NOT_FOUND', 'assigned_to_email must be the email address of an active user'),
    );
  if (refused || lead.problems.length > 0) throw call.request.rejection(lead.problems);
  lead.values.assigned_to = assignee?.id ?? null;
  const prepared = await prepareNew(call, place, await resolve(call, lead), duplicate);

  const metadata = body.metadata ? { metadata: body.metadata } : {};
  const tagIds = writeLead(call, place, prepared, lead.tagIds, metadata);
  const tags = workspace.tags.filter((tag) => tagIds.has(tag.id));
  const shown = toLead(call, prepared.content, tags, assignee, workspace);
  return { status: 201, etag: toEtag({ version: 1 }), data: { lead: shown } };
};

function toLead(
  { caller, now }: Call<'createLead'>,
  { id, values, custom }: NewRecord,
  tags: readonly { name: string }[],
  assignee: Assignee | undefined,
  workspace: Workspace,
): components['schemas']['Lead'] {
  const own = [...getBuiltinObject('leads', workspace).fields.values()].filter((field) => field.custom);
  const text = (field: string) => (values[field] ?? null) as string | null;
  // Required fields and fields with defaults are set.
  const [firstName, statusId] = [values.first_name as string, values.lead_status as string];
  return {
    id,
    first_name: firstName,
    last_name: text('last_name'),
    full_name: [firstName, text('last_name')].filter((name) => name !== null).join(' '),
    email: text('email'),
    mobile: text('mobile'),
    extension: text('extension'),
    company_name: text('company_name'),
    job_title: text('job_title'),
    website: text('website'),
    city: text('city'),
    state: text('state'),
    country: text('country'),
    postal_code: text('postal_code'),
    inquiry_details: text('inquiry_details'),
    notes: text('notes'),
    source: workspace.sources.find((source) => source.id === values.source)?.name ?? null,
    source_id: text('source'),
    priority: values.priority as number,
    origin: text('origin'),
    lead_status: workspace.statuses.find((status) => status.id === statusId)?.name ?? '',
    lead_status_id: statusId,
    assigned_to: text('assigned_to'),
    assigned_to_email: assignee?.email ?? null,
    assigned_to_name: assignee?.fullName ?? null,
    tags: tags.map((tag) => tag.name),
    custom_fields: Object.fromEntries(own.map((field) => [field.name, custom[field.name] ?? null])),
    last_contacted_at: null,
    next_followup_at: null,
    converted_at: text('converted_at'),
    test_mode: caller.testMode,
    created_by: caller.actor,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
  };
}
