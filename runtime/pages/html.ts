// HTML template tag. Interpolated values are escaped unless they are already HTML.

import { pageStyle } from './style.ts';

/** Safe HTML, which is not escaped again. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = Html | string | number | null | readonly Part[];

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function render(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(render).join('');
  return String(part).replace(/[&<>"']/g, (sign) => entities[sign] ?? sign);
}

/** Template tag for HTML. null renders nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    strings.map((text, index) => text + (index < parts.length ? render(parts[index] as Part) : '')).join(''),
  );
}

/** Isolates user text in a sentence, so that its direction does not reorder the text around it. */
export const isolateText = (text: string): Html => html`<bdi>${text}</bdi>`;

/**
 * Returns the host of a URL in its ASCII form, so that lookalike letters of other scripts are
 * visible.
 */
export const renderHost = (url: string): Html => html`<code>${new URL(url).host}</code>`;

/** Invisible characters that reorder text: with them, a name can make a page read differently. */
const bidiControls = /\p{Bidi_Control}/gu;

export const removeBidiControls = (text: string): string => text.replace(bidiControls, '');

/** The parts around the content of a page. */
export interface Frame {
  before: Html;
  /** Addresses of a further style sheet and of a JavaScript module. */
  assets?: { style: string; script: string };
}

/**
 * Renders a whole page, without bidirectional control characters in its text.
 * @param frame shared by pages that belong together; undefined for a standalone page
 */
export function page(title: string | Html, body: Html, frame?: Frame): string {
  const { text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${stripElements(html`${title}`)}</title>
<link rel="icon" href="data:,">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="${pageStyle.address}">
${frame?.assets ? html`<link rel="stylesheet" href="${frame.assets.style}">\n<script type="module" src="${frame.assets.script}"></script>` : null}
</head>
<body>
${frame?.before ?? null}
<main id="content" tabindex="-1">
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
  return removeBidiControls(text);
}

/** Strips elements: a window title is plain text. */
const stripElements = ({ text }: Html): Html => new Html(text.replace(/<[^>]*>/g, ''));
