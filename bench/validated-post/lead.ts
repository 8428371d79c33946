// Shared by all sides of this measurement: the request, and its response.

export interface LeadBody {
  first_name: string;
  last_name?: string;
  email?: string;
  source?: string;
  priority?: number;
}

/** A body as an integrator's web form sends it. */
export const leadBody = {
  first_name: 'Amira',
  last_name: 'Haddad',
  email: 'amira.haddad@bluelake.example',
  mobile: '+971501234567',
  website: 'https://bluelake.example/about',
  inquiry_details: 'Asked for a price list for twelve seats, and whether the data can stay in Europe.',
  notes: 'Prefers a call in the morning.',
  source: 'Website',
  priority: 2,
  next_followup_at: '2026-11-24T08:30:00.000Z',
  tags: ['newsletter', 'trade-fair'],
  metadata: { form: 'pricing', campaign: 'autumn' },
};

export function toLead(body: LeadBody, now: Date) {
  return {
    id: '0193a5e0-7c1e-7000-8000-3b1f6f3c9a42',
    first_name: body.first_name,
    last_name: body.last_name ?? null,
    email: body.email ?? null,
    source: body.source ?? null,
    priority: body.priority ?? 3,
    created_at: now.toISOString(),
  };
}
