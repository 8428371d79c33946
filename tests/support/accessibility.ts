// Checks pages with axe-core by the rules of WCAG 2.2, level AA.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const standards = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** Returns the violations, each with its rule and elements. */
export async function accessibilityProblems(page: Page): Promise<string[]> {
  await page.evaluate(source);
  return page.evaluate(
    `axe.run({ runOnly: ${JSON.stringify(standards)} }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', ')))`,
  );
}
