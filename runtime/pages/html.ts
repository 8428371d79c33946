// HTML template tag. Interpolated values are escaped unless they are already HTML.

import { colors, fonts } from './theme.ts';

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

/** The parts around the content of a page. */
export interface Frame {
  before: Html;
  style: string;
  /** Source of a JavaScript module. */
  script: string;
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
  return removeBidiControls(text);
}

/** Strips elements: a window title is plain text. */
const stripElements = ({ text }: Html): Html => new Html(text.replace(/<[^>]*>/g, ''));
