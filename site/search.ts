// The index that the search of the documentation pages loads: titles, addresses and words.
import { type Contents, toSectionAnchor } from './contents.ts';

export interface Entry {
  title: string;
  detail: string;
  url: string;
  /** Each word of the text once, in lower case. */
  words: string;
}

export function buildSearchIndex({ guides, groups }: Contents): Entry[] {
  const ofGuides = guides.flatMap(({ path, title, summary, sections }) => [
    { title, detail: summary, url: path, words: toWords(sections.map(({ text }) => text).join('\n')) },
    ...sections.map(({ heading, text }) => ({
      title: heading,
      detail: title === heading ? 'Guide' : `Guide: ${title}`,
      url: `${path}#${toSectionAnchor(heading)}`,
      words: toWords(text),
    })),
  ]);
  const ofGroups = groups.flatMap(({ path, title, tags }) => [
    { title, detail: 'API reference', url: path, words: toWords(tags.map(({ name }) => name).join(' ')) },
    ...tags.flatMap((tag) => [
      {
        title: tag.name,
        detail: title,
        url: `${path}#tag/${tag.name.replaceAll(' ', '-')}`,
        words: toWords(tag.introduction),
      },
      ...tag.operations.map(({ id, method, path: route, declared }) => ({
        title: declared.summary ?? id,
        detail: `${method.toUpperCase()} ${route}`,
        url: `${path}#operation/${id}`,
        words: toWords(`${id} ${declared.description ?? ''}`),
      })),
    ]),
  ]);
  // A guide of one section under the same title would be found twice.
  const sections = new Set(guides.map(({ title }) => title));
  return [...ofGuides.filter(({ title, detail }) => detail !== 'Guide' || !sections.has(title)), ...ofGroups];
}

function toWords(text: string): string {
  return [...new Set(text.toLowerCase().match(/[\p{L}\p{N}_]{2,}/gu) ?? [])].join(' ');
}
