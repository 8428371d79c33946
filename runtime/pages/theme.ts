// Theme of all pages: fonts, and colors with sufficient contrast in the light and the dark theme.

export const fonts = {
  text: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  code: 'ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
};

/** Colors of the light theme. The documentation uses them too. */
export const colors = {
  text: '#1f2937',
  quiet: '#4b5563',
  link: '#1d4ed8',
  linkPressed: '#1e40af',
  /** Background of menus and code. */
  ground: '#f8fafc',
  line: '#cbd5e1',
  /** Border of input fields. */
  edge: '#4b5563',
  good: '#15803d',
  bad: '#b42318',
  warning: '#b45309',
};

/**
 * Colors of pages by custom property, as [light, dark]. Text on its background has a contrast of at
 * least 4.5:1, and borders of input fields of at least 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).
 */
const palette: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  page: ['#ffffff', '#0f1522'],
  /** Cards and input fields. */
  raised: ['#ffffff', '#172033'],
  ground: [colors.ground, '#141c2c'],
  text: [colors.text, '#e5e7eb'],
  quiet: [colors.quiet, '#a8b3c4'],
  link: [colors.link, '#8fb4ff'],
  'link-pressed': [colors.linkPressed, '#b6cdff'],
  /** Buttons of the main action, and the text on them. */
  action: [colors.link, '#2f5fe0'],
  'action-pressed': [colors.linkPressed, '#2450c4'],
  'on-action': ['#ffffff', '#ffffff'],
  line: [colors.line, '#334155'],
  edge: [colors.edge, '#8592a6'],
  focus: [colors.warning, '#f59e0b'],
  current: ['#dbeafe', '#22335c'],
  good: [colors.good, '#4ade80'],
  'good-ground': ['#f0fdf4', '#10281c'],
  bad: [colors.bad, '#ff9b90'],
  'bad-ground': ['#fef2f2', '#361718'],
  warning: ['#92400e', '#fbbf24'],
  'warning-ground': ['#fef3c7', '#35270c'],
  'quiet-ground': ['#f1f5f9', '#222c3f'],
  /** Bars of charts. */
  bar: ['#3b6ae0', '#6f9bff'],
};

const listColors = (theme: 0 | 1): string =>
  Object.entries(palette)
    .map(([name, values]) => `--${name}: ${values[theme]}`)
    .join('; ');

/** Classes that show a part of a page in one theme, whatever the browser prefers. */
export const themeClasses = (['light', 'dark'] as const)
  .map(
    (name, theme) =>
      `.theme-${name} { color-scheme: ${name}; ${listColors(theme as 0 | 1)}; color: var(--text); background: var(--page) }`,
  )
  .join('\n');

/**
 * Custom properties of all style sheets. The theme follows the preference of the browser. Spaces are
 * multiples of 0.25rem. Sizes of text are those of body, notes and three headings.
 */
export const tokens = `
:root { color-scheme: light dark; ${listColors(0)};
  --font: ${fonts.text}; --font-code: ${fonts.code};
  --text-small: .875rem; --text-body: 1rem; --text-h3: 1.05rem; --text-h2: 1.25rem; --text-h1: 1.65rem;
  --space-1: .25rem; --space-2: .5rem; --space-3: .75rem; --space-4: 1rem; --space-6: 1.5rem; --space-8: 2rem; --space-10: 2.5rem;
  --radius: .5rem; --radius-small: .25rem }
@media (prefers-color-scheme: dark) { :root { ${listColors(1)} } }`;
