// Renders parts of the OpenAPI document with Redoc, without a browser.
import { createRequire } from 'node:module';
import { options } from '../runtime/openapi/docs-theme.ts';
import type { Document } from '../runtime/openapi/document.ts';
import { findAll, hasClass, type Node, parse } from './tree.ts';

// Without React's checks for developers, rendering takes half the time.
process.env.NODE_ENV = 'production';

// Redoc's own copies, because elements of another React or another style sheet would not be found.
const load = createRequire(createRequire(import.meta.url).resolve('redoc'));
// Redoc only renders the selected tab. All are needed, because the pages run without Redoc.
const tabs = load('react-tabs');
const react = load('react');
const selectable = tabs.Tabs;
const allTabs = (properties: object) => react.createElement(selectable, { ...properties, forceRenderTabPanel: true });
tabs.Tabs = Object.assign(allTabs, selectable);
const { renderToStaticMarkup } = load('react-dom/server');
const { ServerStyleSheet } = load('styled-components');
load('mobx-react').enableStaticRendering(true);
const { Redoc, createStore } = load('redoc');

/** The OpenAPI document, or a part of it. */
export type Json = Document['json'];

export interface Renderer {
  /** Returns the content that Redoc renders for a document, without the menu. */
  render(part: Json): Promise<Node[]>;
  /** Returns the style rules of everything that was rendered. */
  style(): string;
}

export function createRenderer(): Renderer {
  const sheet = new ServerStyleSheet();
  return {
    async render(part) {
      const store = await createStore(part, '', { ...options, schemasExpansionLevel: 3, disableSearch: true });
      const text = renderToStaticMarkup(sheet.collectStyles(react.createElement(Redoc, { store })));
      store.dispose();
      return findAll(parse(text), (each) => hasClass(each, 'api-content'))[0]?.children ?? [];
    },
    style: () => sheet.getStyleTags().replaceAll(/<\/?style[^>]*>/g, ''),
  };
}
