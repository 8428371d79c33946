// Runs on every documentation page: search, languages of samples, tabs, closed parts and the menu.
document.documentElement.classList.add('scripted');

const languageKey = 'docs-language';

/** Reads and writes the chosen language. Browsers can forbid storage. */
const storage = {
  get() {
    try {
      return localStorage.getItem(languageKey);
    } catch {
      return null;
    }
  },
  set(language) {
    try {
      localStorage.setItem(languageKey, language);
    } catch {
      // The choice then holds for this page only.
    }
  },
};

/** Replaces an element by one of another name, with the same attributes and content. */
function rename(element, name) {
  const renamed = document.createElement(name);
  for (const { name: attribute, value } of element.attributes) renamed.setAttribute(attribute, value);
  const from = element instanceof HTMLTemplateElement ? element.content : element;
  const to = renamed instanceof HTMLTemplateElement ? renamed.content : renamed;
  to.append(...from.childNodes);
  element.replaceWith(renamed);
}

/** Panels that are not selected are templates, so that they cost nothing until they are needed. */
function selectTab(tab) {
  const list = tab.parentElement;
  for (const each of list.children) {
    const isSelected = each === tab;
    const panel = document.getElementById(each.getAttribute('aria-controls'));
    each.classList.toggle('react-tabs__tab--selected', isSelected);
    each.setAttribute('aria-selected', String(isSelected));
    each.tabIndex = isSelected ? 0 : -1;
    if (panel && panel instanceof HTMLTemplateElement === isSelected) rename(panel, isSelected ? 'div' : 'template');
  }
}

function selectLanguage(language, except) {
  for (const list of document.querySelectorAll('[role=tablist]')) {
    if (list === except) continue;
    const selected = list.querySelector('[aria-selected=true]');
    const wanted = list.querySelector(`[data-language="${language}"]`);
    if (wanted && selected?.dataset.language !== language) selectTab(wanted);
  }
}

function chooseTab(tab) {
  const { language } = tab.dataset;
  // Samples above the tab change their height; the tab stays where it is.
  const before = tab.getBoundingClientRect().top;
  selectTab(tab);
  if (language) {
    storage.set(language);
    selectLanguage(language, tab.parentElement);
  }
  window.scrollBy(0, tab.getBoundingClientRect().top - before);
}

function toggle(button) {
  const isOpen = button.getAttribute('aria-expanded') === 'true';
  button.setAttribute('aria-expanded', String(!isOpen));
  const details = button.nextElementSibling;
  if (details) rename(details, isOpen ? 'template' : 'div');
}

async function copy(button) {
  const sample = button.closest('[role=tabpanel], figure')?.querySelector('pre');
  if (!sample) return;
  try {
    await navigator.clipboard.writeText(sample.textContent);
    button.textContent = 'Copied';
  } catch {
    getSelection()?.selectAllChildren(sample);
    button.textContent = 'Selected';
  }
}

document.addEventListener('click', (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const tab = target?.closest('[role=tab]');
  if (tab) return chooseTab(tab);
  const button = target?.closest('button');
  if (button?.classList.contains('copy')) return void copy(button);
  if (button?.id === 'menu') return toggleMenu(button);
  if (button?.hasAttribute('aria-expanded')) return toggle(button);
  if (target?.closest('#pages a')) closeMenu();
  if (!target?.closest('.search')) closeResults();
});

document.addEventListener('keydown', (event) => {
  const tab = event.target instanceof Element ? event.target.closest('[role=tab]') : null;
  if (!tab) return;
  const moves = { ArrowRight: tab.nextElementSibling, ArrowLeft: tab.previousElementSibling };
  const next = event.key === 'Enter' || event.key === ' ' ? tab : moves[event.key];
  if (!next) return;
  event.preventDefault();
  chooseTab(next);
  next.focus();
});

function toggleMenu(button) {
  const isOpen = button.getAttribute('aria-expanded') !== 'true';
  button.setAttribute('aria-expanded', String(isOpen));
  document.documentElement.classList.toggle('menu-open', isOpen);
}

function closeMenu() {
  document.getElementById('menu').setAttribute('aria-expanded', 'false');
  document.documentElement.classList.remove('menu-open');
}

// Search: the index of all pages is loaded when the search field is first used.

let index;

async function loadIndex() {
  index ??= fetch('/docs/search.json').then((response) => (response.ok ? response.json() : []));
  return index;
}

/** Returns the best matches. Every word of the query must be in an entry. */
function find(entries, query) {
  const words = query
    .toLowerCase()
    .split(/[^\p{L}\p{N}_]+/u)
    .filter(Boolean);
  if (words.length === 0) return [];
  return entries
    .map((entry) => ({ entry, score: Math.min(...words.map((word) => scoreWord(entry, word))) + bonus(entry, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 12)
    .map(({ entry }) => entry);
}

function scoreWord({ title, detail, words }, word) {
  const name = title.toLowerCase();
  if (name.split(/[^\p{L}\p{N}_]+/u).includes(word)) return 100;
  if (name.includes(word)) return 60;
  if (detail.toLowerCase().includes(word)) return 40;
  if (` ${words} `.includes(` ${word} `)) return 20;
  return ` ${words}`.includes(` ${word}`) ? 10 : Number.NEGATIVE_INFINITY;
}

const bonus = ({ title }, words) => (title.toLowerCase().startsWith(words[0]) ? 5 : 0) - title.length / 100;

function showResults(entries) {
  const list = document.getElementById('results');
  list.replaceChildren(
    ...entries.map(({ title, detail, url }, position) => {
      const item = document.createElement('li');
      item.role = 'option';
      item.id = `result-${position}`;
      const link = document.createElement('a');
      link.href = url;
      link.tabIndex = -1;
      const name = document.createElement('b');
      name.textContent = title;
      const note = document.createElement('span');
      note.textContent = detail;
      link.append(name, note);
      item.append(link);
      return item;
    }),
  );
  if (entries.length === 0) {
    const none = document.createElement('li');
    none.className = 'none';
    none.textContent = 'Nothing found';
    list.append(none);
  }
  list.hidden = false;
  document.getElementById('search').setAttribute('aria-expanded', 'true');
  mark(entries.length > 0 ? 0 : -1);
}

function closeResults() {
  const list = document.getElementById('results');
  if (list.hidden) return;
  list.hidden = true;
  const field = document.getElementById('search');
  field.setAttribute('aria-expanded', 'false');
  field.removeAttribute('aria-activedescendant');
}

let marked = -1;

function mark(position) {
  const items = [...document.querySelectorAll('#results [role=option]')];
  marked = items.length === 0 ? -1 : (position + items.length) % items.length;
  for (const [at, item] of items.entries()) item.setAttribute('aria-selected', String(at === marked));
  const field = document.getElementById('search');
  if (marked < 0) return field.removeAttribute('aria-activedescendant');
  field.setAttribute('aria-activedescendant', items[marked].id);
  items[marked].scrollIntoView({ block: 'nearest' });
}

function arrangeSearch() {
  const field = document.getElementById('search');
  field.addEventListener('focus', () => void loadIndex());
  field.addEventListener('input', async () => {
    const query = field.value;
    const entries = await loadIndex();
    // Typed on meanwhile.
    if (query !== field.value) return;
    if (query.trim() === '') closeResults();
    else showResults(find(entries, query));
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return closeResults();
    if (event.key === 'ArrowDown') mark(marked + 1);
    else if (event.key === 'ArrowUp') mark(marked - 1);
    else if (event.key === 'Enter') document.querySelector('#results [aria-selected=true] a')?.click();
    else return;
    event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    field.focus();
  });
}

/** Links to the former single page name an operation of any group. */
async function followOldLink() {
  const { hash, pathname } = location;
  if (pathname !== '/docs' || !/^#(operation|tag|section)\//.test(hash)) return;
  const target = (await loadIndex()).find(({ url }) => url.endsWith(decodeURIComponent(hash)));
  if (target) location.replace(target.url);
}

document.addEventListener('DOMContentLoaded', () => {
  arrangeSearch();
  const language = storage.get();
  if (language) {
    selectLanguage(language);
    // Samples change the height of the page after the browser has scrolled to the anchor.
    document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  }
  void followOldLink();
});
