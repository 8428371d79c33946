// Theme of all pages: fonts, and colors with sufficient contrast.

export const fonts = {
  text: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  code: 'ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
};

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
