// Text of pages: what is put into it is escaped, unless it is such text itself.

import { colors, fonts } from './theme.ts';

/** Text that may stand in a page as it is. */
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

function textOf(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map(textOf).join('');
  return String(part).replace(/[&<>"']/g, (sign) => entities[sign] ?? sign);
}

/** Writes text of a page; null is nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    strings.map((text, index) => text + (index < parts.length ? textOf(parts[index] as Part) : '')).join(''),
  );
}

/** A text of others inside a sentence: its direction, or a sign in it, reorders nothing around it. */
export const isolated = (text: string): Html => html`<bdi>${text}</bdi>`;

/** A host in an element of its own, as ASCII, so that letters of other scripts do not pass for Latin ones. */
export const hostOf = (url: string): Html => html`<code>${new URL(url).host}</code>`;

/** Characters that reorder text without being seen: a name with them can make a page read as another one. */
const bidiControls = /\p{Bidi_Control}/gu;

export const withoutBidiControls = (text: string): string => text.replace(bidiControls, '');

const { text, quiet, link, linkPressed, ground, line, edge, good, bad, warning } = colors;

const style = `
*, ::before, ::after { box-sizing: border-box }
body { font: 1rem/1.6 ${fonts.text}; max-width: 32rem; margin: 2rem auto; padding: 0 1rem; color: ${text}; background: #fff; overflow-wrap: break-word }
h1, h2, h3 { line-height: 1.3; font-weight: 650 }
h1 { font-size: 1.6rem; margin: 0 0 1rem }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem }
a { color: ${link} }
a:hover { color: ${linkPressed} }
fieldset { border: 1px solid ${line}; border-radius: .5rem; padding: .5rem 1rem 1rem; margin: 1rem 0; min-width: 0 }
label, legend { display: block; margin: 1rem 0 .25rem; font-weight: 600 }
legend { padding: 0 .25rem }
input, select, textarea { font: inherit; color: inherit; width: 100%; padding: .5rem; border: 1px solid ${edge}; border-radius: .25rem; background: #fff }
input[type=checkbox] { width: 1.5rem; height: 1.5rem; margin: 0 .5rem 0 0; vertical-align: middle }
textarea { font-family: ${fonts.code}; font-size: .9rem; min-height: 7rem }
[aria-invalid=true] { border: 2px solid ${bad} }
button { font: inherit; margin: 1rem .5rem 0 0; padding: .5rem 1.25rem; border: 1px solid ${link}; border-radius: .25rem; background: ${link}; color: #fff; min-height: 2.75rem; cursor: pointer }
button:hover { background: ${linkPressed} }
button.quiet { background: #fff; color: ${link} }
button.danger { background: #fff; color: ${bad}; border-color: ${bad} }
button.quiet:hover, button.danger:hover { background: ${ground} }
:focus-visible, input:focus-within { outline: 3px solid ${warning}; outline-offset: 2px }
[role=alert] { border-left: 4px solid ${bad}; padding: .5rem 1rem; background: #fef2f2; color: #7f1d1d; margin: 1rem 0 }
[role=alert] a { color: #7f1d1d }
[role=status] { border-left: 4px solid ${good}; padding: .5rem 1rem; background: #f0fdf4; color: #14532d; margin: 1rem 0 }
.problem { color: ${bad}; font-weight: 600; margin: .25rem 0 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .5rem .75rem .5rem 0; border-bottom: 1px solid ${line} }
code, pre { font-family: ${fonts.code}; font-size: .875rem; overflow-wrap: anywhere }
pre { background: ${ground}; border: 1px solid ${line}; border-radius: .25rem; padding: .75rem; white-space: pre-wrap; margin: .5rem 0 }
dl { margin: .5rem 0 }
dt { font-weight: 600 }
dd { margin: 0 0 .5rem }
.note { color: ${quiet}; font-size: .9rem; margin: .25rem 0 }`;

/** What stands around the content of a page, and how that looks. */
export interface Frame {
  before: Html;
  style: string;
  /** A module. */
  script: string;
}

/**
 * A whole page, without bidirectional control characters from any text that it shows.
 * @param frame of pages that belong together; a page without one stands alone
 */
export function page(title: string | Html, body: Html, frame?: Frame): string {
  const { text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${withoutElements(html`${title}`)}</title>
<link rel="icon" href="data:,">
<style>${new Html(style + (frame?.style ?? ''))}</style>
</head>
<body>
${frame?.before ?? null}
<main id="content" tabindex="-1">
<h1>${title}</h1>
${body}
</main>
${frame ? html`<script type="module">${new Html(frame.script)}</script>` : null}
</body>
</html>
`;
  return withoutBidiControls(text);
}

/** A title of the browser's window, which can hold text alone. */
const withoutElements = ({ text }: Html): Html => new Html(text.replace(/<[^>]*>/g, ''));
