// Progressive enhancement of console pages: copy buttons, and reloading temporary states.
import { createAsset } from '../../runtime/pages/assets.ts';

/**
 * Polling interval in seconds, and the maximum number of polls, so that an open page does not poll
 * for hours.
 */
const polling = { every: 3, most: 100 };

/** A module, which browsers run when the page is complete. */
export const consoleScript = createAsset(
  '/assets/console.js',
  'text/javascript; charset=utf-8',
  `
for (const secret of document.querySelectorAll('.secret')) {
  if (!navigator.clipboard) break;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  button.textContent = 'Copy';
  button.ariaLive = 'polite';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(secret.textContent);
    button.textContent = 'Copied';
  });
  secret.after(button);
}
for (let looked = 0; looked < ${polling.most} && document.querySelector('.changing'); looked += 1) {
  await new Promise((resolve) => setTimeout(resolve, ${polling.every * 1000}));
  if (document.hidden) continue;
  const answer = await fetch(location.href).catch(() => undefined);
  if (answer?.redirected) break;
  if (!answer?.ok) continue;
  const main = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
  const shown = document.querySelector('main');
  // Do not replace a form while the person types, or details that the person reads.
  if (main.innerHTML === shown.innerHTML || shown.querySelector('form:focus-within, details[open]')) continue;
  shown.replaceChildren(...main.childNodes);
}`,
);
