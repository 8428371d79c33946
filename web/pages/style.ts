// The style sheet of console pages: the frame with its menu, and the components.
import { createAsset } from '../../runtime/pages/assets.ts';

export const consoleStyle = createAsset(
  '/assets/console.css',
  'text/css; charset=utf-8',
  `
body { max-width: none; margin: 0; padding: 0 }
.skip { position: absolute; left: -100vw }
.skip:focus { left: var(--space-4); top: var(--space-2); background: var(--raised); padding: var(--space-2) var(--space-4); z-index: 1 }

/* The frame */
header { display: flex; flex-wrap: wrap; align-items: center; gap: var(--space-1) var(--space-6); padding: var(--space-2) var(--space-4); border-bottom: 1px solid var(--line) }
header p, header form { margin: 0 }
header button { margin: 0; padding: var(--space-1) var(--space-3); min-height: 2rem }
.brand a { color: var(--text); font-weight: 650; text-decoration: none; display: inline-block; padding: var(--space-1) 0 }
.brand img { margin-right: var(--space-2); vertical-align: middle }
.who { color: var(--quiet); margin-left: auto }
nav.menu { background: var(--ground); border-bottom: 1px solid var(--line); padding: var(--space-2) }
nav.menu ul { list-style: none; display: flex; flex-wrap: wrap; margin: 0; padding: 0 }
nav.menu h2 { font-size: var(--text-small); color: var(--quiet); margin: var(--space-4) .6rem var(--space-1) }
nav.menu a { display: block; padding: .35rem .6rem; border-radius: var(--radius-small); color: var(--text); text-decoration: none }
nav.menu a:hover { text-decoration: underline }
nav.menu [aria-current=page], nav.menu [aria-current=true] { background: var(--current); color: var(--link); font-weight: 600 }
main { max-width: 64rem; padding: var(--space-6) var(--space-4) 4rem }
main:focus { outline: none }
@media (min-width: 60rem) {
  body { display: grid; grid-template: auto 1fr / 14rem 1fr; min-height: 100vh }
  header { grid-column: 1 / 3; padding: var(--space-2) var(--space-6) }
  nav.menu { border-bottom: 0; border-right: 1px solid var(--line); padding: var(--space-2) var(--space-3) var(--space-4) }
  nav.menu ul { flex-direction: column }
  main { padding: var(--space-6) var(--space-8) 4rem; min-width: 0; grid-column: 2 }
}
@media (max-width: 59.99rem) { nav.menu h2 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) } nav.menu ul { display: contents } nav.menu { display: flex; flex-wrap: wrap } nav.menu li { display: block } }

/* Forms */
form.inline { display: flex; flex-wrap: wrap; align-items: end; gap: 0 var(--space-4); margin-bottom: var(--space-4); max-width: 44rem }
form.inline > div { flex: 1 1 12rem }
form.filter { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: 0 var(--space-4); max-width: 44rem }
form.filter button { justify-self: start; align-self: end }
form.line { display: inline-block }
form.line button { margin: 0 var(--space-2) var(--space-2) 0; padding: var(--space-1) var(--space-3); min-height: 2rem }
main > form:not(.inline, .line, .wide), main > section > form:not(.inline, .line, .wide) { max-width: 36rem }
form.wide > div, form.wide > p { max-width: 44rem }
form.wide td label { margin: 0; font-weight: 400 }
.choices { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: var(--space-1) var(--space-4); align-items: center }
.choices > fieldset { display: contents }
.choices .ticks { display: flex; flex-wrap: wrap; gap: 0 var(--space-4) }
.choices label { margin: var(--space-1) 0; font-weight: 400 }
.choices legend { float: left; padding: 0; margin: 0; font-weight: 400; color: var(--quiet) }
.presets { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); list-style: none; margin: 0 0 var(--space-2); padding: 0 }

/* Components */
.caution { border-left: 4px solid var(--warning); padding: var(--space-2) var(--space-4); background: var(--warning-ground); margin: var(--space-4) 0 }
.secret { user-select: all; display: block; padding: var(--space-3); background: var(--ground); border: 1px solid var(--line); border-radius: var(--radius-small); font-size: 1rem }
.facts { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: var(--space-1) var(--space-6) }
.facts dd { margin: 0; min-width: 0 }
.cards { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); gap: var(--space-4) }
.cards li, .card { border: 1px solid var(--line); border-radius: var(--radius); padding: var(--space-4); background: var(--raised) }
.cards a { font-weight: 600 }
.cards p { margin: var(--space-1) 0 0 }
.cards .number { display: block; font-size: var(--text-h1); line-height: 1.2; font-weight: 650; font-variant-numeric: tabular-nums }
.badge { display: inline-block; padding: 0 .5rem; border-radius: 1rem; font-size: var(--text-small); font-weight: 600; background: var(--quiet-ground); color: var(--quiet); white-space: nowrap }
.badge.good { background: var(--good-ground); color: var(--good) }
.badge.bad { background: var(--bad-ground); color: var(--bad) }
.badge.warning { background: var(--warning-ground); color: var(--warning) }
.tabs { margin: 0 0 var(--space-4); border-bottom: 1px solid var(--line) }
.tabs ul { display: flex; flex-wrap: wrap; gap: 0 var(--space-4); list-style: none; margin: 0; padding: 0 }
.tabs a { display: block; padding: var(--space-2) 0; color: var(--quiet); text-decoration: none; border-bottom: 3px solid transparent }
.tabs a:hover { color: var(--text) }
.tabs [aria-current] { color: var(--text); font-weight: 600; border-color: var(--link) }
.empty { border: 1px dashed var(--line); border-radius: var(--radius); padding: var(--space-8) var(--space-4); text-align: center; color: var(--quiet) }
.empty p { margin: 0 }
.pages ul { display: flex; flex-wrap: wrap; gap: 0 var(--space-6); list-style: none; margin: var(--space-4) 0; padding: 0 }
.pages a { display: inline-block; padding: var(--space-1) 0 }
.timeline { list-style: none; margin: 0; padding: 0; border-left: 2px solid var(--line) }
.timeline li { padding: 0 0 var(--space-4) var(--space-4); max-width: 44rem }
.timeline h3 { margin: 0; font-size: var(--text-body); overflow-wrap: anywhere }
.timeline p { margin: var(--space-1) 0 0; overflow-wrap: anywhere }
article { border: 1px solid var(--line); border-radius: var(--radius); padding: var(--space-4); margin: 0 0 var(--space-4); max-width: 44rem; background: var(--raised) }
article h2 { margin: 0 0 var(--space-2); font-size: var(--text-h3); overflow-wrap: anywhere }
.decision { display: flex; flex-wrap: wrap; align-items: start; gap: 0 var(--space-2) }
article form > button { margin-top: var(--space-1) }
label.select { float: right; margin: 0 0 0 var(--space-4); font-weight: 400 }
summary { cursor: pointer; padding: var(--space-1) 0 }
figure { margin: 0 }
figcaption { font-weight: 600; margin-bottom: var(--space-2) }
.chart { display: block; width: 100%; height: 8rem }
.chart rect { fill: var(--bar) }
.chart.bad rect { fill: var(--bad) }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); gap: var(--space-4); align-items: start }
.charts .empty { padding: var(--space-6) var(--space-4) }
.chart line { stroke: var(--line) }
.progress { display: block; width: 100%; height: .75rem; accent-color: var(--action) }
article.change { max-width: none }
.change h3 { margin: 0 0 var(--space-2) }
.change h3, .change td, .facts dd { overflow-wrap: anywhere }
.change ul { margin: 0; padding-left: 1.25rem }
.change ul ul { list-style: none; padding: 0 }
.change table { table-layout: fixed; margin-bottom: var(--space-2) }
p > .button { margin-top: 0 }
.scroll { overflow-x: auto }
.scroll td:not(:first-child) { min-width: 6rem }
.scroll .problem { display: block; min-width: 14rem; margin: 0 }
.sample { color: var(--quiet); font-size: var(--text-small) }
.text { white-space: pre-wrap }
.none { color: var(--quiet); font-style: italic }
@media (min-width: 45.01rem) { td time, td summary, td .id, td > code { white-space: nowrap } }
@media (max-width: 45rem) {
  .facts, .choices { display: block }
  .facts dd { margin-bottom: var(--space-2) }
  .choices > fieldset { display: block; border: 0; padding: 0; margin: 0 0 var(--space-2) }
  .choices legend { float: none; font-weight: 600 }
  table, tbody, tr, td { display: block }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  tr { border: 1px solid var(--line); border-radius: var(--radius); padding: var(--space-2) var(--space-3); margin-bottom: var(--space-3) }
  td { border: 0; padding: .15rem 0 }
  td[data-label]::before { content: attr(data-label) ": "; font-weight: 600 }
  td:empty { display: none }
  .change tr { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .35rem 0; margin: 0 }
}
`,
);
