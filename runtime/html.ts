// Text of pages: what is put into it is escaped, unless it is such text itself.

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

const style = `
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 2rem auto; padding: 0 1rem; color: #1f2937; background: #fff }
h1 { font-size: 1.5rem }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600 }
input { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; border: 1px solid #4b5563; border-radius: .25rem }
button { font: inherit; margin: 1.5rem .5rem 0 0; padding: .6rem 1.4rem; border: 1px solid #1d4ed8; border-radius: .25rem; background: #1d4ed8; color: #fff; min-height: 2.75rem }
button.quiet { background: #fff; color: #1d4ed8 }
input:focus, button:focus, a:focus { outline: 3px solid #d97706; outline-offset: 2px }
[role=alert] { border-left: 4px solid #b91c1c; padding: .5rem 1rem; background: #fef2f2; color: #7f1d1d }
[role=status] { border-left: 4px solid #15803d; padding: .5rem 1rem; background: #f0fdf4; color: #14532d }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .5rem .25rem 0; border-bottom: 1px solid #d1d5db }
.note { color: #4b5563; font-size: .9rem }`;

/** A whole page. */
export function page(title: string, body: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Html(style)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`.text;
}
