#!/usr/bin/env node
// Plain JavaScript on purpose: it must be readable by the very Node it turns away.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `latchkey-server: needs Node 22.19 or newer, this is ${process.versions.node} (${process.execPath})\n`,
  );
  process.exit(1);
}

// Node takes these only on its command line. Without them V8 lets the memory for short-lived objects grow with the calls,
// to several hundred megabytes, and collects it many times during the start, while everything in it is still in use. A limit given
// here or in NODE_OPTIONS wins.
const youngGeneration = '--max-semi-space-size';
const given = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ');
if (
  process.argv[2] === 'start' &&
  process.platform !== 'win32' &&
  !given.includes(youngGeneration)
) {
  const { execPath, execArgv, argv } = process;
  const sizes = [`${youngGeneration}=8`, '--min-semi-space-size=8'];
  const args = [execPath, ...sizes, ...execArgv, ...argv.slice(1)];
  // Node 22.19 passes no environment unless it is named.
  process.execve(execPath, args, process.env);
}

// Options of V8 are set here because a Node that does not know an option on its command line does not start.
function setForStart(option, flag) {
  if (process.argv[2] === 'start' && !given.includes(option))
    process.getBuiltinModule('node:v8').setFlagsFromString(flag);
}
// By default, V8 collects long-lived objects only when their memory is several times what was in use. This lets it grow by
// three quarters.
setForStart('heap-growing-percent', '--heap-growing-percent=75');
// After some starts, V8 allocates objects of calls among the long-lived ones. There they keep what ended calls refer to until the next
// collection of the whole heap.
setForStart('allocation-site-pretenuring', '--no-allocation-site-pretenuring');

// `import` reads all exports of a module of Node, and so loads the half of Node that they lead to.
const { existsSync, lstatSync, mkdirSync, statSync } = process.getBuiltinModule('node:fs');
const { homedir } = process.getBuiltinModule('node:os');
const path = process.getBuiltinModule('node:path');

// Node 22 warns of its own SQLite, which is not for users to act on. Other warnings are shown.
const emitWarning = process.emitWarning.bind(process);
process.emitWarning = (warning, ...rest) => {
  if (String(warning).startsWith('SQLite is an experimental feature')) return;
  emitWarning(warning, ...rest);
};

// By default Node caches compiled code below the folder for temporary files, where another user of this host could plant
// it. So it is cached only in a folder that this user owns and no other user can change. `sudo` may keep another's HOME.
function enableCompileCache() {
  const { env, platform } = process;
  // Node itself has read these.
  if (env.NODE_COMPILE_CACHE || env.NODE_DISABLE_COMPILE_CACHE) return;
  let caches = path.join(env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'latchkey');
  if (platform === 'darwin') caches = path.join(homedir(), 'Library/Caches/Latchkey');
  if (platform === 'win32')
    caches = path.join(env.LOCALAPPDATA || path.join(homedir(), 'AppData/Local'), 'Latchkey');
  const folder = path.join(caches, 'compile-cache');
  const isOwn = ({ uid }) => platform === 'win32' || uid === process.getuid();
  if (!path.isAbsolute(folder) || !isOwn(statSync(homedir()))) return;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const found = lstatSync(folder);
  const isPrivate = platform === 'win32' || (found.mode & 0o022) === 0;
  if (found.isDirectory() && isOwn(found) && isPrivate)
    process.getBuiltinModule('node:module').enableCompileCache(folder);
}
try {
  enableCompileCache();
} catch {
  // Without a cache the start takes a little longer.
}

// The sources win over a build, so that a stale build never shadows what is being worked on.
const source = new URL('../main.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href);
