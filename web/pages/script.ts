// What the console does where JavaScript runs, and is whole without: copying, and looking again.

/** Seconds between two looks, and how often at most: whoever leaves a page open for hours asks no more. */
const look = { every: 3, most: 100 };

/** A module at the end of each page. */
export const script = `
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
for (let looked = 0; looked < ${look.most} && document.querySelector('.changing'); looked += 1) {
  await new Promise((resolve) => setTimeout(resolve, ${look.every * 1000}));
  if (document.hidden) continue;
  const answer = await fetch(location.href).catch(() => undefined);
  if (!answer?.ok) continue;
  const main = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main');
  const shown = document.querySelector('main');
  // Nothing is taken from under somebody who types.
  if (main.innerHTML === shown.innerHTML || shown.querySelector('form:focus-within')) continue;
  shown.replaceChildren(...main.childNodes);
}`;
