// Lead intake: names resolved, duplicates refused, one lead stored.
import { v7 as uuidv7 } from 'uuid';
import { findDuplicate } from '../db/duplicates.ts';
import { type Assignee, findAssignee, insertLead, type LeadRow } from '../db/leads.ts';
import { startClocks } from '../db/sla-clocks.ts';
import { type CheckedLead, checkLead } from '../domain/lead-intake.ts';
import { unmetByNew } from '../domain/pre-conditions.ts';
import { etagOf } from '../domain/record-version.ts';
import { clocksOfNew } from '../domain/sla-tracking.ts';
import { automaticTags } from '../domain/tags.ts';
import { builtinOf, type Workspace } from '../domain/workspace.ts';
import type { components } from '../generated/api.ts';
import { alreadyExists, preConditionsNotMet, problem } from '../runtime/errors.ts';
import type { Call, Handler } from '../runtime/handler.ts';

export const createLead: Handler<'createLead'> = async (call) => {
  const { body, caller, sql, now } = call;
  const workspace = await call.workspace();
  const lead = checkLead(body, workspace, now);
  const refused = call.problems.length > 0 || lead.problems.length > 0;
  // Asked even for a body that is refused, so that an unknown assignee is listed with its other problems.
  const [assignee, duplicate] = await Promise.all([
    findAssignee(sql, caller.companyId, lead.assigneeEmail),
    findDuplicate(sql, caller, 'leads', refused ? [] : lead.duplicates),
  ]);
  if (lead.assigneeEmail !== null && !assignee)
    lead.problems.push(problem('assigned_to_email', 'NOT_FOUND', 'assigned_to_email is not an active user'));
  if (refused || lead.problems.length > 0) throw call.refusal(lead.problems);
  const id = uuidv7();
  const unmet = unmetByNew(builtinOf('leads', workspace), leadToBe(id, lead, assignee), lead, workspace, now);
  if (unmet.length > 0) throw preConditionsNotMet(unmet);
  if (duplicate) {
    const { matchedFields, visible, id } = duplicate;
    throw alreadyExists(`A lead with this ${matchedFields.join(' and ')} exists.`, matchedFields, visible ? id : null);
  }

  const row = rowOf(call, id, lead, assignee, workspace);
  const manual = lead.tags.map((tag) => tag.id);
  const automatic = automaticTagsOf(row, lead, workspace).filter((id) => !manual.includes(id));
  await Promise.all([
    insertLead(sql, row, manual, automatic),
    startClocks(sql, caller, clocksOfNew('leads', [{ id: row.id, values: lead.values }], workspace, now)),
  ]);
  const tags = workspace.tags.filter((tag) => manual.includes(tag.id) || automatic.includes(tag.id));
  call.record({
    action: 'lead.create',
    object: 'leads',
    recordId: row.id,
    ...(body.metadata ? { metadata: body.metadata } : {}),
    event: { name: 'record.created', data: { object: 'leads', record_id: row.id, occurred_at: now.toISOString() } },
  });
  return { status: 201, etag: etagOf({ version: 1 }), data: { lead: toLead(row, lead, tags, assignee, workspace) } };
};

/** The lead as pre-conditions look at it. */
function leadToBe(id: string, { values, custom }: CheckedLead, assignee: Assignee | undefined) {
  return { id, values: { ...values, assigned_to: assignee?.id ?? null }, custom };
}

function rowOf(
  call: Call<'createLead'>,
  id: string,
  lead: CheckedLead,
  assignee: Assignee | undefined,
  workspace: Workspace,
): LeadRow {
  const { caller, now } = call;
  const status = workspace.statuses.find((each) => each.id === lead.values.lead_status);
  const text = (field: string) => (lead.values[field] ?? null) as string | null;
  return {
    company_id: caller.companyId,
    test_mode: caller.testMode,
    id,
    // The body is good, so what is required or has a default is there.
    first_name: lead.values.first_name as string,
    last_name: text('last_name'),
    email: text('email'),
    mobile: text('mobile'),
    inquiry_details: text('inquiry_details'),
    notes: text('notes'),
    source_id: text('source'),
    priority: lead.values.priority as number,
    origin: text('origin'),
    lead_status_id: lead.values.lead_status as string,
    assigned_to: assignee?.id ?? null,
    converted_at: status?.outcome === 'converted' ? now : null,
    custom: lead.custom,
    created_by_kind: caller.actor.kind,
    created_by_id: caller.actor.id,
    created_by_name: caller.actor.name,
    created_at: now,
    updated_at: now,
  };
}

/** The ids of the tags that the lead's own data puts on it. */
function automaticTagsOf(row: LeadRow, { values, custom }: CheckedLead, workspace: Workspace): string[] {
  const leads = workspace.objects.get('leads');
  if (!leads) throw new Error('every workspace has leads');
  const converted = row.converted_at?.toISOString() ?? null;
  const record = {
    id: row.id,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    values: { ...values, assigned_to: row.assigned_to, converted_at: converted },
    custom,
  };
  return automaticTags(leads, workspace, record).map((tag) => tag.id);
}

function toLead(
  row: LeadRow,
  lead: CheckedLead,
  tags: readonly { name: string }[],
  assignee: Assignee | undefined,
  workspace: Workspace,
): components['schemas']['Lead'] {
  const custom = [...(workspace.objects.get('leads')?.fields.values() ?? [])].filter((field) => field.custom);
  return {
    id: row.id,
    first_name: row.first_name,
    last_name: row.last_name,
    full_name: [row.first_name, row.last_name].filter((name) => name !== null).join(' '),
    email: row.email,
    mobile: row.mobile,
    inquiry_details: row.inquiry_details,
    notes: row.notes,
    source: workspace.sources.find((source) => source.id === row.source_id)?.name ?? null,
    source_id: row.source_id,
    priority: row.priority,
    origin: row.origin,
    lead_status: workspace.statuses.find((status) => status.id === row.lead_status_id)?.name ?? '',
    lead_status_id: row.lead_status_id,
    assigned_to: row.assigned_to,
    assigned_to_email: assignee?.email ?? null,
    assigned_to_name: assignee?.full_name ?? null,
    tags: tags.map((tag) => tag.name),
    custom_fields: Object.fromEntries(custom.map((field) => [field.name, lead.custom[field.name] ?? null])),
    last_contacted_at: null,
    next_followup_at: null,
    converted_at: row.converted_at?.toISOString() ?? null,
    test_mode: row.test_mode,
    created_by: { kind: row.created_by_kind, id: row.created_by_id, name: row.created_by_name },
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
