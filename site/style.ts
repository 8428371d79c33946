// The style sheet of the documentation pages: Redoc's rules with two themes, and our layout.
import { colors, fonts } from '../runtime/pages/theme.ts';

/** Colors of text and lines in the dark theme, by those of the light theme that Redoc uses. */
const darkInk: Record<string, string> = {
  '#1f2937': '#e5e7eb',
  '#4b5563': '#a8b3c4',
  '#707070': '#a8b3c4',
  '#777': '#a8b3c4',
  '#000': '#e5e7eb',
  black: '#e5e7eb',
  '#263238': '#e5e7eb',
  '#1d4ed8': '#8fb4ff',
  '#1e40af': '#b6cdff',
  '#6f90ec': '#8fb4ff',
  '#15803d': '#4ade80',
  '#b42318': '#ff9b90',
  '#9f1239': '#fda4af',
  '#0e7c86': '#5eead4',
  'rgba(31,41,55,0.9)': '#e5e7eb',
  'rgba(75,85,99,0.9)': '#a8b3c4',
  'rgba(29,78,216,0.9)': '#8fb4ff',
  'rgba(38, 50, 56, 0.7)': '#a8b3c4',
};
/** Colors of Redoc with too little contrast, and those that replace them in the light theme. */
const corrected: Record<string, string> = { '#6f90ec': '#1d4ed8' };
const darkGround: Record<string, string> = {
  '#ffffff': '#111827',
  '#fff': '#111827',
  white: '#111827',
  '#f8fafc': '#172033',
  '#fafafa': '#172033',
  '#f1f5f9': '#263248',
  '#f2f2f2': '#263248',
  '#cbd5e1': '#475569',
  '#ddd': '#374151',
  '#ccc': '#374151',
  'rgba(31,41,55,0.05)': 'rgba(229,231,235,0.08)',
  'rgba(21,128,61,0.07)': 'rgba(74,222,128,0.12)',
  'rgba(180,35,24,0.07)': 'rgba(255,155,144,0.12)',
};
const darkLines: Record<string, string> = {
  '#cbd5e1': '#475569',
  '#ddd': '#374151',
  '#ccc': '#374151',
  '#9fb4be': '#475569',
  '#1d4ed8': '#8fb4ff',
  'rgba(0, 0, 0, 0.2)': 'rgba(255,255,255,0.2)',
  'rgba(38, 50, 56, 0.1)': 'rgba(255,255,255,0.15)',
  'rgba(38, 50, 56, 0.3)': 'rgba(255,255,255,0.2)',
  'rgba(38, 50, 56, 0.5)': 'rgba(255,255,255,0.3)',
  'rgba(31,41,55,0.1)': 'rgba(255,255,255,0.15)',
  'rgba(29,78,216,0.1)': 'rgba(143,180,255,0.2)',
};

/** Marks of HTTP methods, which have white text. */
const methods = {
  get: colors.good,
  post: colors.link,
  put: colors.warning,
  patch: colors.warning,
  delete: colors.bad,
};

/** @param rules the rules of everything that Redoc rendered */
export function buildStyleSheet(rules: string): string {
  const variables = new Map<string, [light: string, dark: string]>();
  const themed = rules
    .replaceAll(/data-styled\.g\d+\[id="[^"]*"\]\{[^}]*\}/g, '')
    .replaceAll('/*!sc*/', '')
    .replaceAll(
      /(?<=[;{])([\w-]+):([^;{}]*)/g,
      (_, property: string, value: string) => `${property}:${toVariables(property, value, variables)}`,
    );
  const list = (theme: 0 | 1): string => [...variables].map(([name, values]) => `${name}: ${values[theme]};`).join(' ');
  return `:root { color-scheme: light dark; ${ours(0)} ${list(0)} }
@media (prefers-color-scheme: dark) { :root { ${ours(1)} ${list(1)} } }
${themed}
${layout}`;
}

function toVariables(property: string, value: string, variables: Map<string, [string, string]>): string {
  const [kind, dark] = /^(color|fill)$/.test(property)
    ? (['ink', darkInk] as const)
    : /^(background|background-color)$/.test(property)
      ? (['ground', darkGround] as const)
      : (['line', darkLines] as const);
  return value.replaceAll(/#[0-9a-fA-F]{3,8}\b|rgba?\([^)]*\)|\b(?:white|black)\b/g, (color) => {
    const other = dark[color.toLowerCase()];
    if (other === undefined) return color;
    const name = `--${kind}-${color
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '')}`;
    variables.set(name, [corrected[color.toLowerCase()] ?? color, other]);
    return `var(${name})`;
  });
}

/** Colors of the layout, light and dark. */
const palette: Record<string, [light: string, dark: string]> = {
  page: ['#ffffff', '#111827'],
  ground: [colors.ground, '#0f172a'],
  text: [colors.text, '#e5e7eb'],
  quiet: [colors.quiet, '#a8b3c4'],
  link: [colors.link, '#8fb4ff'],
  line: [colors.line, '#374151'],
  edge: [colors.edge, '#8592a6'],
  code: ['#f1f5f9', '#263248'],
  mark: ['#e0e7ff', '#26365c'],
  panel: ['#0f172a', '#0f172a'],
};
const ours = (theme: 0 | 1): string =>
  Object.entries(palette)
    .map(([name, values]) => `--${name}: ${values[theme]};`)
    .join(' ');

const layout = `
*, *::before, *::after { box-sizing: border-box; }
html { scroll-padding-top: 4.5rem; }
body { margin: 0; color: var(--text); background: var(--page); font: 15px/1.6 ${fonts.text}; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; z-index: 3; background: var(--page); padding: 0.5rem; }
.top { position: sticky; top: 0; z-index: 2; display: flex; gap: 1rem; align-items: center; height: 3.5rem; padding: 0 1.25rem; background: var(--page); border-bottom: 1px solid var(--line); }
.top .home { flex: none; width: 16rem; font-weight: 650; color: var(--text); text-decoration: none; }
.search { position: relative; flex: 1; max-width: 36rem; }
html:not(.scripted) .search, html:not(.scripted) #menu { display: none; }
#search { width: 100%; padding: 0.4rem 0.75rem; font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--edge); border-radius: 6px; }
#results { position: absolute; left: 0; right: 0; margin: 0.25rem 0 0; padding: 0.25rem; max-height: 70vh; overflow: auto; list-style: none; background: var(--page); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 8px 24px rgba(0, 0, 0, 0.25); }
#results a, #results .none { display: block; padding: 0.35rem 0.6rem; border-radius: 4px; color: inherit; text-decoration: none; }
#results [aria-selected=true] a, #results a:hover { background: var(--mark); }
#results b { display: block; font-weight: 600; }
#results span { font-size: 0.85em; color: var(--quiet); overflow-wrap: anywhere; }
#menu { display: none; padding: 0.35rem 0.8rem; font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--edge); border-radius: 6px; }
#pages { position: fixed; top: 3.5rem; bottom: 0; left: 0; width: 17.5rem; overflow: auto; padding: 0.5rem 0.75rem 2rem; background: var(--ground); border-right: 1px solid var(--line); font-size: 14px; line-height: 1.4; }
#pages h2 { margin: 1rem 0.5rem 0.35rem; font-size: 12px; text-transform: uppercase; letter-spacing: 0.04em; color: var(--quiet); }
#pages ul { margin: 0; padding: 0; list-style: none; }
#pages a { display: block; padding: 0.28rem 0.5rem; border-radius: 4px; color: var(--text); text-decoration: none; }
#pages a:hover { background: var(--code); }
#pages a[aria-current] { background: var(--mark); font-weight: 600; }
#pages .tag { margin-top: 0.35rem; padding-left: 0.9rem; font-weight: 600; }
#pages li ul a { padding-left: 4.1rem; position: relative; }
.method { position: absolute; left: 0.9rem; top: 0.4rem; width: 2.7rem; font: 600 10px/1.5 ${fonts.code}; text-align: center; text-transform: uppercase; color: #fff; border-radius: 3px; }
${Object.entries(methods)
  .map(([name, color]) => `.method.${name} { background: ${color}; }`)
  .join('\n')}
main { margin-left: 17.5rem; min-height: calc(100vh - 3.5rem); outline: none; overflow-wrap: break-word; }
main.prose { max-width: 64rem; padding: 1.5rem 2.5rem 5rem; }
main h1 { margin: 0 0 0.5rem; font-size: 1.9rem; line-height: 1.25; font-weight: 650; }
main.reference > h1, main.reference > .formats, main.reference > noscript { display: block; padding: 0 40px; margin-right: 40%; }
main.reference > h1 { padding-top: 1.5rem; }
.formats { margin: 0 0 1rem; font-size: 0.9em; }
.note { padding: 0.5rem 0.75rem; border: 1px solid var(--line); border-radius: 6px; background: var(--ground); }
/* Redoc's parts, in our layout. */
main div, main span { max-width: 100%; }
main.prose div { width: auto; padding: 0; max-width: none; min-height: 0; }
main.prose h2 { margin: 2rem 0 0.5rem; font-size: 1.4rem; }
main.prose [id^='section/Authentication/'] h2 { font-size: 1.15rem; }
main.prose h3 { margin: 1.5rem 0 0.5rem; font-size: 1.15rem; }
main.reference { background: linear-gradient(to right, var(--page) 60%, var(--panel) 60%); }
main.reference h3 { margin-top: 0; font-size: 1.35rem; font-weight: 650; line-height: 1.3; color: var(--text); }
main.reference h2 { font-size: 1.6rem; }
main pre { margin: 0; padding: 0.9rem 1rem; font: 13px/1.55 ${fonts.code}; white-space: pre-wrap; overflow-wrap: anywhere; }
main .redoc-markdown pre, main.prose pre { margin: 0.75rem 0; color: #e2e8f0; background: #1e293b; border-radius: 6px; }
main pre code { all: unset; white-space: pre-wrap; overflow-wrap: anywhere; }
main pre .token.string { color: #a5f3c4; }
main code { overflow-wrap: anywhere; }
main table { font-size: 0.93em; }
main.prose table { display: block; overflow-x: auto; border-collapse: collapse; }
main.prose table td, main.prose table th { padding: 0.45rem 0.65rem; vertical-align: top; text-align: left; border: 1px solid var(--line); }
main.prose table tr { background: none; }
main.prose p, main.prose li { max-width: 48rem; }
.access { margin: 0.75rem 0 1rem; font-size: 0.93em; }
.access code, .prose code { font-family: ${fonts.code}; font-size: 0.9em; color: var(--ink-9f1239, inherit); background: var(--code); padding: 0.08em 0.3em; border-radius: 3px; }
main.reference td > .property-name { display: inline-block; padding-left: 0.7rem; }
main.reference td > .property-name + div { padding-left: 0.7rem; margin-left: 0; }
main.reference [role=tablist] { margin: 0; }
main.reference .errors + div strong::before { content: none; }
main.reference .errors + div p { color: var(--text); }
button.errors { display: block; width: 100%; margin: 0.25rem 0; padding: 0.6rem 0.75rem; font: inherit; font-size: 0.93em; text-align: left; color: var(--text); background: var(--code); border: 0; border-radius: 2px; cursor: pointer; }
main button[aria-expanded]::before { content: '▸'; display: inline-block; width: 1.1em; }
main button[aria-expanded=true]::before { content: '▾'; }
button.copy { position: absolute; right: 0.5rem; top: 0.4rem; z-index: 1; padding: 0.15rem 0.6rem; font: 12px/1.5 ${fonts.text}; color: #e2e8f0; background: #334155; border: 1px solid #64748b; border-radius: 4px; cursor: pointer; }
html:not(.scripted) button.copy { display: none; }
[role=tabpanel] { position: relative; }
[role=tab] { cursor: pointer; }
#main [role=tablist] > [role=tab] { color: #b6c2d4; background: #1e293b; border-color: #475569; min-width: 0; margin: 0 0.35rem 0.35rem 0; padding: 0.25rem 0.6rem; font-size: 0.87em; }
#main [role=tablist] > [role=tab].tab-error { color: #ff9b90; }
#main [role=tablist] > [role=tab].tab-success { color: #4ade80; }
#main [role=tablist] > [role=tab][aria-selected=true] { color: #0f172a; background: #e2e8f0; }
#main [role=tabpanel] pre { padding: 2.2rem 1rem 0.9rem; background: #1e293b; color: #e2e8f0; border-radius: 4px; }
#main [role=tabpanel] div { position: static; padding: 0; margin: 0; background: none; opacity: 1; }
@media (max-width: 75rem) {
  main.reference { background: none; }
  main.reference > h1, main.reference > .formats { margin-right: 0; }
}
@media (max-width: 56rem) {
  .top { gap: 0.6rem; padding: 0 0.75rem; }
  .top .home { width: auto; max-width: 7.5rem; line-height: 1.2; font-size: 14px; }
  .search { position: static; }
  #results { left: 0.5rem; right: 0.5rem; top: 3.25rem; margin: 0; }
  #menu { display: block; }
  .scripted #pages { display: none; width: auto; right: 0; z-index: 1; }
  .scripted.menu-open #pages { display: block; }
  html:not(.scripted) #pages { position: static; width: auto; }
  main { margin-left: 0; }
  main.prose { padding: 1.25rem 1rem 4rem; }
  main.reference > h1, main.reference > .formats { padding: 0 1rem; }
  main.reference > h1 { padding-top: 1.25rem; }
  main.reference > div, main.reference > div > div, main.reference > div > div > div { padding-left: 0; padding-right: 0; }
  main.reference > div > div > div { padding: 0.75rem 1rem; }
}
@media print { .top, #pages { display: none; } main { margin: 0; } }
`;
