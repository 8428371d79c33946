// Writes the generated part of the clients.
// Usage: node sdk/generators/main.ts <openapi.json> typescript <operations.ts>
//        node sdk/generators/main.ts <openapi.json> others <sdk folder>
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeGo } from './go.ts';
import { writeJava } from './java.ts';
import { readModel } from './model.ts';
import { writePhp } from './php.ts';
import { writePython } from './python.ts';
import { writeTypeScript } from './typescript.ts';

const others = { python: writePython, go: writeGo, java: writeJava, php: writePhp };

const [source = '', client, target = ''] = process.argv.slice(2);
const model = readModel(JSON.parse(readFileSync(source, 'utf8')));
if (client === 'typescript') writeFileSync(target, writeTypeScript(model));
else
  for (const [language, write] of Object.entries(others)) {
    const folder = join(target, language);
    // One file per structure. Files of removed structures must not remain.
    rmSync(join(folder, 'src/main/java/headlesscrm/model'), { recursive: true, force: true });
    for (const [path, text] of write(model)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    process.stdout.write(`${folder}\n`);
  }
