// Names fields in error messages by the labels that stand in the form, not by their API names.
import { Html, html } from '../../runtime/pages/html.ts';
import { toLabel } from './changes.ts';

/** A name of the API in a sentence: words with underscores, maybe an element of a list. */
const apiName = /\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\[\d+\])?(?![\w:*])/g;

/**
 * Marks a field's name, to be replaced by its label.
 * @param path such as `tags[0]`
 * @param otherwise the text if the page has no such field
 */
export function nameField(path: string, otherwise?: string): Html {
  const [, name = path, index] = /^([^.[]+)(?:\[(\d+)\])?/.exec(path) ?? [];
  return html`<span data-field="${name}">${otherwise ?? toLabel(name)}</span>${index === undefined ? null : ` (entry ${Number(index) + 1})`}`;
}

/** Marks the names of fields in a message. Other words with underscores may be what the person wrote. */
export function nameFields(message: string): Html {
  const parts: Html[] = [];
  let end = 0;
  for (const { 0: name, index } of message.matchAll(apiName)) {
    parts.push(html`${message.slice(end, index)}${nameField(name, name)}`);
    end = index + name.length;
  }
  return html`${parts}${message.slice(end)}`;
}

/**
 * Replaces marked names by the labels of the page's fields, links the error summary to the fields,
 * and focuses the first invalid field. Browsers focus it without a script.
 */
export function fillLabels({ text }: Html): Html {
  if (!text.includes('data-field=') && !text.includes('aria-invalid=')) return new Html(text);
  const fields = findFields(text);
  return new Html(
    text
      .replace(markedName, (whole, name: string) => fields.get(name)?.label ?? whole.replace(/<[^>]*>/g, ''))
      .replace(markedLink, (_, name: string, content: string) => {
        const id = fields.get(name)?.id;
        return id === undefined ? content : `<a href="#${id}">${content}</a>`;
      })
      .replace(' aria-invalid="true"', ' aria-invalid="true" autofocus'),
  );
}

const markedName = /<span data-field="([^"]*)">[^<]*<\/span>/g;
const markedLink = /<a data-to-field="([^"]*)">(.*?)<\/a>/g;

const invalidField = / id="([^"]+)" name="[^"]*"[^>]* aria-invalid="true"/g;

/** Returns the labels and ids of fields, by their names in errors. Texts are HTML. */
function findFields(text: string): Map<string, { id: string; label: string }> {
  const labels = text.matchAll(/<label for="([^"]+)"(?: data-error-name="([^"]+)")?>(.*?)<\/label>/gs);
  const fields = [...labels].map(([, id = '', errorName = id, label = '']) => ({
    id,
    errorName,
    label: label.replace(/<[^>]*>/g, ''),
  }));
  const invalid = new Set([...text.matchAll(invalidField)].map(([, id = '']) => id));
  // If several forms have the field, the one with the error counts, and otherwise the first one.
  const ordered = [...fields]
    .reverse()
    .sort((one, other) => Number(invalid.has(one.id)) - Number(invalid.has(other.id)));
  return new Map(ordered.map(({ errorName, ...found }) => [errorName, found]));
}
