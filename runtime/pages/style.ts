// The style sheet of all pages for people: text, forms, buttons, messages and tables.
import { createAsset } from './assets.ts';
import { tokens } from './theme.ts';

export const pageStyle = createAsset(
  '/assets/page.css',
  'text/css; charset=utf-8',
  `${tokens}
*, ::before, ::after { box-sizing: border-box }
body { font: var(--text-body)/1.6 var(--font); max-width: 32rem; margin: var(--space-8) auto; padding: 0 var(--space-4); color: var(--text); background: var(--page); overflow-wrap: break-word }
h1, h2, h3 { line-height: 1.3; font-weight: 650 }
h1 { font-size: var(--text-h1); margin: 0 0 var(--space-4) }
h2 { font-size: var(--text-h2); margin: var(--space-10) 0 var(--space-3) }
h3 { font-size: var(--text-h3); margin: var(--space-6) 0 var(--space-2) }
a { color: var(--link) }
a:hover { color: var(--link-pressed) }
fieldset { border: 1px solid var(--line); border-radius: var(--radius); padding: var(--space-2) var(--space-4) var(--space-4); margin: var(--space-4) 0; min-width: 0 }
label, legend { display: block; margin: var(--space-4) 0 var(--space-1); font-weight: 600 }
legend { padding: 0 var(--space-1) }
input, select, textarea { font: inherit; color: inherit; width: 100%; padding: var(--space-2); border: 1px solid var(--edge); border-radius: var(--radius-small); background: var(--raised) }
input[type=checkbox], input[type=radio] { width: 1.5rem; height: 1.5rem; margin: 0 var(--space-2) 0 0; vertical-align: middle; accent-color: var(--action) }
.times { display: grid; grid-template-columns: repeat(auto-fill, minmax(6.5rem, 1fr)); gap: var(--space-1) var(--space-3) }
.times label { margin: 0; padding: var(--space-1) 0; font-weight: 400 }
textarea { font-family: var(--font-code); font-size: .9rem; min-height: 7rem }
[aria-invalid=true] { border: 2px solid var(--bad) }
button, .button { display: inline-block; font: inherit; margin: var(--space-4) var(--space-2) 0 0; padding: var(--space-2) 1.25rem; border: 1px solid var(--action); border-radius: var(--radius-small); background: var(--action); color: var(--on-action); min-height: 2.75rem; cursor: pointer; text-decoration: none }
button[hidden] { display: none }
button:hover, .button:hover { background: var(--action-pressed); color: var(--on-action) }
button.quiet { background: var(--raised); color: var(--link); border-color: var(--link) }
button.danger { background: var(--raised); color: var(--bad); border-color: var(--bad) }
button.quiet:hover, button.danger:hover { background: var(--quiet-ground) }
:focus-visible, input:focus-within { outline: 3px solid var(--focus); outline-offset: 2px }
[role=alert], [role=status] { border-left: 4px solid var(--bad); padding: var(--space-2) var(--space-4); background: var(--bad-ground); margin: var(--space-4) 0 }
[role=alert] a { color: inherit }
[role=status] { border-color: var(--good); background: var(--good-ground) }
.problem { color: var(--bad); font-weight: 600; margin: var(--space-1) 0 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: var(--space-2) var(--space-3) var(--space-2) 0; border-bottom: 1px solid var(--line) }
th { font-size: var(--text-small); color: var(--quiet) }
code, pre { font-family: var(--font-code); font-size: var(--text-small); overflow-wrap: anywhere }
pre { background: var(--ground); border: 1px solid var(--line); border-radius: var(--radius-small); padding: var(--space-3); white-space: pre-wrap; margin: var(--space-2) 0 }
dl { margin: var(--space-2) 0 }
dt { font-weight: 600 }
dd { margin: 0 0 var(--space-2) }
.workspace { display: flex; flex-wrap: wrap; align-items: center; gap: var(--space-2) var(--space-4); margin: 0 0 var(--space-6); font-weight: 600 }
.workspace p { margin: 0; min-width: 0 }
.logo { background: #fff; border-radius: var(--radius-small) }
.note { color: var(--quiet); font-size: .9rem; margin: var(--space-1) 0 }
`,
);
