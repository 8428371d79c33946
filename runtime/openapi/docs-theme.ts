// Theme of the documentation page: Redoc's options, and CSS for what they do not cover.
import { colors, fonts } from '../pages/theme.ts';

const { text, code } = fonts;

export const options = {
  expandResponses: '200,201',
  requiredPropsFirst: true,
  maxDisplayedEnumValues: 8,
  hideSchemaTitles: true,
  schemasExpansionLevel: 1,
  jsonSamplesExpandLevel: 'all',
  pathInMiddlePanel: true,
  hideRequestPayloadSample: true,
  nativeScrollbars: true,
  minCharacterLengthToInitSearch: 2,
  theme: {
    spacing: { sectionVertical: 20 },
    colors: {
      primary: { main: colors.link },
      success: { main: colors.good },
      error: { main: colors.bad },
      text: { primary: colors.text, secondary: colors.quiet },
      border: { light: '#e5e7eb', dark: colors.line },
      http: {
        get: colors.good,
        post: colors.link,
        put: colors.warning,
        patch: colors.warning,
        delete: colors.bad,
      },
    },
    schema: { requireLabelColor: colors.bad, nestedBackground: colors.ground, linesColor: colors.line },
    typography: {
      fontSize: '15px',
      lineHeight: '1.6',
      fontFamily: text,
      smoothing: 'auto',
      headings: { fontFamily: text, fontWeight: '650', lineHeight: '1.3' },
      code: { fontSize: '13px', fontFamily: code, color: '#9f1239', backgroundColor: '#f1f5f9', wrap: true },
      links: { color: colors.link, visited: colors.link, hover: colors.linkPressed },
    },
    sidebar: { width: '280px', backgroundColor: colors.ground, textColor: colors.text },
    rightPanel: { backgroundColor: '#0f172a', textColor: '#e2e8f0' },
    codeBlock: { backgroundColor: '#1e293b' },
  },
};

export const style = `
body { margin: 0; color: ${colors.text}; background: #fff; }
#docs > p { font: 15px/1.6 ${text}; margin: 4rem auto; max-width: 30rem; padding: 0 1.5rem; }
/* The menu: entries close together, and no link of the maker's. */
#docs .menu-content { padding-top: 0.75rem; }
#docs .menu-content li > label { padding-top: 0.45rem; padding-bottom: 0.45rem; }
#docs .menu-content div:has(> a[href^="https://redocly.com"]) { display: none; }
#docs [id^="section/Authentication/"] h2 { font-size: 1.1rem; margin-bottom: 0; }
#docs table { font-size: 0.9em; }
#docs table td, #docs table th { vertical-align: top; }
#docs pre { font-size: 13px; line-height: 1.55; white-space: pre-wrap; overflow-wrap: anywhere; }
#docs pre code { white-space: inherit; overflow-wrap: inherit; }
#docs .redoc-json, #docs .redoc-json .token { overflow-wrap: anywhere; }
#docs [id^="operation/"] { padding-top: 24px; }
@media (max-width: 50rem) {
  #docs .redoc-markdown td { overflow-wrap: anywhere; }
  #docs .redoc-markdown th, #docs .redoc-markdown td { padding: 0.4rem 0.5rem; }
}
`;
