// Parses and writes HTML as Redoc renders it: well-formed, with every element closed.

export interface Element {
  name: string;
  attributes: Map<string, string>;
  children: Node[];
}

/** An element, or text with its entities as they are in the source. */
export type Node = Element | string;

const voidElements = new Set(['area', 'br', 'col', 'hr', 'img', 'input', 'link', 'meta', 'source', 'wbr']);

const token = /<!--[\s\S]*?-->|<(\/?)([a-zA-Z][\w-]*)((?:\s+[^\s=>/"']+(?:="[^"]*")?)*)\s*(\/?)>|[^<]+|</g;

/** Returns the nodes of an HTML text. A closing tag closes everything inside of its element. */
export function parse(text: string): Node[] {
  const root = createElement('root');
  const open = [root];
  for (const [whole, closing, name, attributes = '', selfClosing] of text.matchAll(token)) {
    if (whole.startsWith('<!--')) continue;
    const parent = open.at(-1) as Element;
    if (name === undefined) {
      parent.children.push(whole === '<' ? '&lt;' : whole);
    } else if (closing) {
      const index = open.findLastIndex((each) => each.name === name.toLowerCase());
      if (index > 0) open.length = index;
    } else {
      const child = createElement(name.toLowerCase(), readAttributes(attributes));
      parent.children.push(child);
      if (!selfClosing && !voidElements.has(child.name)) open.push(child);
    }
  }
  return root.children;
}

export function createElement(name: string, attributes: Record<string, string> = {}, children: Node[] = []): Element {
  return { name, attributes: new Map(Object.entries(attributes)), children };
}

/** Returns the HTML text of nodes. */
export function write(nodes: readonly Node[]): string {
  return nodes
    .map((node) => {
      if (typeof node === 'string') return node;
      const attributes = [...node.attributes].map(([name, value]) => ` ${name}="${value}"`).join('');
      const start = `<${node.name}${attributes}>`;
      return voidElements.has(node.name) ? start : `${start}${write(node.children)}</${node.name}>`;
    })
    .join('');
}

/** Returns the text of nodes, without entities. */
export function readText(nodes: readonly Node[]): string {
  return nodes.map((node) => (typeof node === 'string' ? decode(node) : readText(node.children))).join('');
}

/** Returns every element that matches, outermost first, including those inside of others. */
export function findAll(nodes: readonly Node[], matches: (element: Element) => boolean): Element[] {
  return nodes.flatMap((node) =>
    typeof node === 'string' ? [] : [...(matches(node) ? [node] : []), ...findAll(node.children, matches)],
  );
}

/**
 * Returns the nodes with each element replaced by what `change` returns for it. Children are
 * changed before their parents.
 */
export function mapElements(nodes: readonly Node[], change: (element: Element) => Node[]): Node[] {
  return nodes.flatMap((node) => {
    if (typeof node === 'string') return [node];
    return change({ ...node, children: mapElements(node.children, change) });
  });
}

export const hasClass = (node: Node | undefined, name: string): boolean =>
  typeof node === 'object' && (node.attributes.get('class') ?? '').split(/\s+/).includes(name);

/** Returns the number of elements, without the inert content of templates. */
export function countElements(nodes: readonly Node[]): number {
  return nodes.reduce((count, node) => {
    if (typeof node === 'string') return count;
    return count + 1 + (node.name === 'template' ? 0 : countElements(node.children));
  }, 0);
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

function decode(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal) return String.fromCodePoint(Number(decimal));
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16));
    return entities[name] ?? whole;
  });
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

function readAttributes(text: string): Record<string, string> {
  const found = text.matchAll(/([^\s=>/"']+)(?:="([^"]*)")?/g);
  return Object.fromEntries([...found].map(([, name = '', value = '']) => [name, value]));
}
