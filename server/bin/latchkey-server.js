#!/usr/bin/env node
// Plain JavaScript on purpose: it must be readable by the very Node it turns away.
import { existsSync } from 'node:fs';
import module from 'node:module';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `latchkey-server: needs Node 22.19 or newer, this is ${process.versions.node} (${process.execPath})\n`,
  );
  process.exit(1);
}

// Node takes this only on its command line. Without it V8 lets the memory for short-lived objects grow with the calls,
// to several hundred megabytes. Whoever sets it, here or in NODE_OPTIONS, decides.
const youngGeneration = '--max-semi-space-size';
const given = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ');
if (
  process.argv[2] === 'start' &&
  process.platform !== 'win32' &&
  !given.includes(youngGeneration)
) {
  const { execPath, execArgv, argv } = process;
  process.execve(execPath, [execPath, `${youngGeneration}=8`, ...execArgv, ...argv.slice(1)]);
}
module.enableCompileCache?.();

// The sources win over a build, so that a stale build never shadows what is being worked on.
const source = new URL('../main.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href);
