#!/usr/bin/env node
// Plain JavaScript on purpose: it must be readable by the very Node it turns away.
import { existsSync } from 'node:fs';
import module from 'node:module';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `latchkey: needs Node 22.19 or newer, this is ${process.versions.node} (${process.execPath})\n`,
  );
  process.exit(1);
}
module.enableCompileCache?.();

// The sources win over a build, so that a stale build never shadows what is being worked on.
const source = new URL('../main.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href);
