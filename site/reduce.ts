// Reduces what Redoc renders to what a page needs that runs without Redoc.
// Content that is not shown at first is kept in templates, where it costs no layout.
import {
  createElement,
  type Element,
  escapeHtml,
  findAll,
  hasClass,
  mapElements,
  type Node,
  readText,
  write,
} from './tree.ts';

/** What a page adds to an operation. */
export interface OperationNotes {
  /** Languages of the samples, in their order. */
  languages: string[];
  security: Record<string, string[]>[];
}

const isToggle = (node: Node | undefined): boolean =>
  typeof node === 'object' && node.name === 'button' && node.attributes.has('aria-expanded');

const listChildElements = (node: Element): Element[] => node.children.filter((child) => typeof child === 'object');

/** @param toAddress returns the address of an anchor of the OpenAPI document */
export function reduce(
  nodes: readonly Node[],
  toAddress: (anchor: string) => string,
  notes: ReadonlyMap<string, OperationNotes> = new Map(),
): Node[] {
  const marked = mapElements(nodes, (each) => {
    const id = each.attributes.get('id')?.replace(/^operation\//, '');
    const note = id === undefined ? undefined : notes.get(id);
    return [note ? annotate(each, note) : each];
  });
  return mapElements(marked, (each) => simplify(each, toAddress));
}

/** Adds the languages of its samples and its credentials to an operation. */
function annotate(operation: Element, { languages, security }: OperationNotes): Element {
  const [samples] = findAll([operation], (each) => each.attributes.get('role') === 'tablist');
  const tabs = samples ? listChildElements(samples) : [];
  // Redoc shows no tabs of responses before those of the request.
  if (tabs.length === languages.length)
    for (const [index, tab] of tabs.entries()) tab.attributes.set('data-language', languages[index] ?? '');
  for (const heading of findAll([operation], (each) => /^h[1-5]$/.test(each.name)))
    heading.name = `h${Math.min(Number(heading.name[1]) + 1, 6)}`;
  return {
    ...operation,
    children: mapElements(operation.children, (each) => [isAccess(each) ? access(security) : each]),
  };
}

function isAccess(node: Element): boolean {
  const [title] = listChildElements(node);
  return title !== undefined && listChildElements(title).some((each) => readText([each]) === 'Authorizations:');
}

const code = (text: string): Element => createElement('code', {}, [escapeHtml(text)]);

function access(security: Record<string, string[]>[]): Element {
  const names = [...new Set(security.flatMap((each) => Object.keys(each)))];
  const scopes = [...new Set(security.flatMap((each) => Object.values(each).map((list) => list.join(' and '))))];
  const named = scopes.filter((scope) => scope !== '');
  const list = (values: string[]): Node[] =>
    values.flatMap((value, index) => [...(index > 0 ? [' or '] : []), code(value)]);
  return createElement('p', { class: 'access' }, [
    createElement('b', {}, ['Credential: ']),
    ...list(names),
    ...(named.length > 0 ? [' with scope ', ...list(named)] : []),
  ]);
}

function simplify(node: Element, toAddress: (anchor: string) => string): Node[] {
  const { name, attributes, children } = node;
  for (const attribute of ['html', 'style', 'kind', 'data-rttabs', 'data-rttab', 'aria-disabled', 'data-section-id'])
    attributes.delete(attribute);
  if (attributes.get('id')?.startsWith('tag/') && attributes.get('id')?.includes('/operation/'))
    attributes.delete('id');
  if (name === 'svg' || name === 'select' || name === 'script' || name === 'style') return [];
  if (name === 'a') return [link(node, toAddress)];
  if (name === 'button') return button(node);
  if (hasClass(node, 'redoc-json')) return [createElement('pre', {}, [jsonText(node)])];
  // The list of servers under the URL of an operation.
  if (attributes.get('aria-hidden') === 'true') return [];
  if (attributes.get('role') === 'tabpanel' && !hasClass(node, 'react-tabs__tab-panel--selected'))
    return [{ ...node, name: 'template' }];
  if (isToggle(children[0])) return [response(node)];
  if (children.length > 1 && children.some(isError)) return [{ ...node, children: groupErrors(children) }];
  if (name === 'span' && hasClass(node, 'token') && !/\b(string|comment)\b/.test(attributes.get('class') ?? ''))
    return children;
  if (name === 'span' && hasClass(node, 'token'))
    return [createElement('span', { class: 'token string' }, [escapeHtml(readText(children))])];
  // The only media type of a sample.
  if (name === 'div' && readText(children.slice(0, 1)) === 'Content type') return [];
  const isPlain = attributes.size === 0 && (name === 'div' || name === 'span');
  if (isPlain) return name === 'div' && children.some((child) => typeof child === 'string') ? [node] : children;
  const isEmpty = children.every((child) => typeof child === 'string' && child.trim() === '');
  if (isEmpty && ['span', 'div', 'p', 'ul'].includes(name) && !attributes.has('id')) return [];
  return [node];
}

const readStatus = (node: Node): string => {
  const [first] = typeof node === 'object' && node.name === 'div' ? listChildElements(node) : [];
  return first?.name === 'strong' ? readText([first]).trim() : '';
};
const isError = (node: Node): boolean => /^[45]\d\d$|^default$/.test(readStatus(node));

/** Puts the errors of an operation behind one button that lists them. */
function groupErrors(children: readonly Node[]): Node[] {
  const errors = children.filter(isError);
  const label = `Errors: ${errors.map(readStatus).join(', ')}`;
  const toggle = createElement('button', { class: 'errors', type: 'button', 'aria-expanded': 'false' }, [label]);
  const group = createElement('div', {}, [toggle, createElement('template', {}, errors)]);
  const first = children.findIndex(isError);
  return [...children.slice(0, first), group, ...children.slice(first).filter((child) => !isError(child))];
}

function link(node: Element, toAddress: (anchor: string) => string): Element {
  const target = node.attributes.get('href') ?? '';
  if (target.startsWith('#')) node.attributes.set('href', toAddress(decodeURIComponent(target.slice(1))));
  // The link mark next to a heading.
  if (node.attributes.has('aria-label')) node.attributes.set('aria-label', 'Link to this section');
  return node;
}

function button(node: Element): Node[] {
  const text = readText(node.children).trim();
  if (text === 'Copy') return [createElement('button', { class: 'copy', type: 'button' }, ['Copy'])];
  if (text === 'Expand all' || text === 'Collapse all' || hasClass(node, 'collapser')) return [];
  if (node.attributes.get('aria-expanded') === 'true') {
    node.attributes.set('type', 'button');
    node.attributes.set('aria-expanded', 'false');
    return [node];
  }
  node.attributes.delete('aria-label');
  return node.attributes.size === 0 ? node.children : [{ ...node, name: 'div' }];
}

/** Returns a response that can be opened. */
function response(node: Element): Element {
  const [title, ...details] = node.children;
  return { ...node, children: [title as Node, createElement('template', {}, details)] };
}

/** Returns the JSON of a sample, indented. Redoc renders an element for each token. */
function jsonText(node: Element): string {
  const text = readText(node.children);
  try {
    return escapeHtml(JSON.stringify(JSON.parse(text), null, 2));
  } catch {
    return write([text]);
  }
}
