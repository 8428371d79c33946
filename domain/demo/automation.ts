// The workforce of the demo workspace for new leads, and leads that are enrolled in it.
import type { GivenStep } from '../automation/workforces.ts';
import type { DemoData } from './data.ts';
import { exampleIds } from './ids.ts';
import { addDays, Random } from './random.ts';

interface DemoRun {
  id: string;
  leadId: string;
  status: 'waiting' | 'completed' | 'stopped';
  /** The number of finished steps. */
  position: number;
  enrolledAt: Date;
  endedAt: Date | null;
}

export interface DemoWorkforces {
  workforce: { id: string; name: string; description: string; steps: readonly GivenStep[]; createdAt: Date };
  runs: DemoRun[];
}

const steps: readonly GivenStep[] = [
  { kind: 'create_task', title: 'Call {{first_name}}', due_in_minutes: 60 },
  { kind: 'wait', minutes: 2880 },
  { kind: 'stop_when', condition: { field: 'lead_status', op: 'neq', value: 'New' } },
  { kind: 'draft_message', channel: 'email', subject: 'Your roof', body: 'Hello {{first_name}}, when may we call?' },
];

/** The same seed, data and time give the same runs. */
export function buildDemoWorkforces(seed: number, { leads }: DemoData, now: Date): DemoWorkforces {
  const random = new Random(seed);
  const fresh = leads.filter(({ email, lead_status }) => email !== null && lead_status === 'New').slice(0, 4);
  const contacted = leads.filter(({ email, lead_status }) => email !== null && lead_status === 'Contacted').slice(0, 4);
  return {
    workforce: {
      id: exampleIds.workforce,
      name: 'Welcome a new lead',
      description: 'What everybody does for a new lead',
      steps,
      createdAt: addDays(now, -30),
    },
    runs: [
      ...fresh.map((lead, index) => ({
        id: index === 0 ? exampleIds.workforceRun : random.uuid(now),
        leadId: lead.id,
        status: 'waiting' as const,
        position: 2,
        enrolledAt: addDays(now, -1),
        endedAt: null,
      })),
      ...contacted.map((lead, index) => {
        const enrolledAt = addDays(now, -4 - index);
        const ends = { enrolledAt, endedAt: addDays(enrolledAt, 2) };
        return { id: random.uuid(enrolledAt), leadId: lead.id, status: 'stopped' as const, position: 2, ...ends };
      }),
    ],
  };
}
