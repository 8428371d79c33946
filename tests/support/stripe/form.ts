// Parses the forms of Stripe's package: items[0][price]=… is an object with a list in it.

export interface Form {
  [name: string]: string | Form;
}

export function readForm(text: string): Form {
  const form: Form = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.split(/\[|\]\[|\]/).filter((part) => part !== '');
    const last = path.pop() ?? '';
    let place = form;
    for (const part of path) {
      if (typeof place[part] !== 'object') place[part] = {};
      place = place[part] as Form;
    }
    place[last] = value;
  }
  return form;
}

/** Returns the items of a list in a form. */
export const readList = (value: string | Form | undefined): Form[] =>
  typeof value === 'object' ? (Object.values(value) as Form[]) : [];

export const readTexts = (value: string | Form | undefined): string[] =>
  typeof value === 'object' ? (Object.values(value) as string[]) : [];

export const readText = (value: string | Form | undefined): string => (typeof value === 'string' ? value : '');

/** Merges metadata. An empty value deletes its name. */
export function mergeMetadata(before: Record<string, string>, sent: string | Form | undefined): Record<string, string> {
  const all = { ...before, ...(typeof sent === 'object' ? (sent as Record<string, string>) : {}) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
}
