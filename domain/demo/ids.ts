// The ids that the examples of the document name, and that every demo workspace has.

const idOf = (ending: string): string => `019a9f5e-7c1b-7cc3-8f3a-2f6f1c2b${ending}`;

/** By what they are; the document shows the same. */
export const exampleIds = {
  account: idOf('9d10'),
  otherAccount: idOf('9d11'),
  accountsToDelete: [idOf('9d17'), idOf('9d18'), idOf('9d19')],
  user: idOf('9d12'),
  branch: idOf('9d11'),
  team: idOf('9d15'),
  apiKey: idOf('9d14'),
  apiKeyToRevoke: idOf('9d16'),
  customer: idOf('9d40'),
  attachment: idOf('9d44'),
  lead: idOf('9e10'),
  leadsToConvert: [idOf('9e11'), idOf('9e12')],
  deal: idOf('9e20'),
  activity: idOf('9e30'),
  leadStatus: idOf('9e40'),
  tag: idOf('9e50'),
  source: idOf('9e60'),
  slaPolicy: idOf('9e70'),
  activityType: idOf('9e80'),
  task: idOf('9e90'),
  note: idOf('9ea0'),
  message: idOf('9eb0'),
  invoice: idOf('9d30'),
  checkoutSession: 'cs_4fQ2mWz7Rt9xQbe1Kp4mWz7R',
  webhook: idOf('9f01'),
  webhookDelivery: idOf('9f11'),
  webhookEvent: idOf('9f21'),
} as const;
