import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

/**
 * Who may enter whom, and with which npm packages. `main` marries adapters to decisions and may enter
 * every room of its own package. A room without a line here may not exist. A folder within a folder has
 * a line of its own, such as `server/upstreams/demo`.
 */
const rooms: Record<string, { enters?: string[]; packages?: string[] }> = {
  'proxy/main': {
    enters: [
      'cli',
      'clock',
      'config',
      'errors',
      'http',
      'kept',
      'keychain',
      'local-server',
      'log',
      'loopback',
      'token',
    ],
  },
  'proxy/check-connection': {
    enters: ['accounts', 'config', 'jsonrpc', 'log', 'oauth', 'upstream'],
  },
  'proxy/connect': {
    enters: [
      'accounts',
      'bridge',
      'config',
      'errors',
      'jsonrpc',
      'kept',
      'log',
      'open-account',
      'open-credential',
      'open-presence',
      'open-upstream',
    ],
  },
  'proxy/open-credential': {
    enters: ['accounts', 'clock', 'config', 'errors', 'kept', 'log', 'token', 'upstream'],
  },
  'proxy/open-upstream': { enters: ['config', 'era', 'jsonrpc', 'log', 'upstream'] },
  'proxy/open-account': {
    enters: ['accounts', 'clock', 'config', 'http', 'keychain', 'loopback', 'token'],
  },
  'proxy/open-kept': { enters: ['config', 'era', 'kept'] },
  'proxy/open-embedded-keyring': { enters: ['clock', 'keychain', 'single-executable'] },
  'proxy/open-doctor': {
    enters: ['accounts', 'cli', 'config', 'doctor', 'errors', 'http', 'log'],
  },
  'proxy/greet': {
    enters: ['config', 'doctor', 'era', 'errors', 'jsonrpc', 'log', 'token', 'upstream'],
  },
  'proxy/doctor': {
    enters: ['accounts', 'clock', 'config', 'http', 'keychain', 'log', 'oauth'],
    packages: ['fflate'],
  },
  'proxy/open-tool-filter': { enters: ['config', 'log', 'tools', 'upstream'] },
  'proxy/open-accepted-tools': { enters: ['config', 'tools'] },
  'proxy/errors': {
    enters: [
      'agent',
      'config',
      'http',
      'jsonrpc',
      'kept',
      'keychain',
      'log',
      'loopback',
      'oauth',
      'token',
      'upstream',
    ],
  },
  'proxy/cli': {
    enters: [
      'accounts',
      'agent',
      'assistants',
      'clock',
      'config',
      'doctor',
      'http',
      'keychain',
      'loopback',
      'mcp-remote',
      'token',
      'tools',
    ],
  },
  'proxy/accounts': {
    enters: [
      'clock',
      'config',
      'doctor',
      'editing',
      'http',
      'keychain',
      'log',
      'loopback',
      'oauth',
      'presence',
      'token',
    ],
  },
  'proxy/open-accounts': {
    enters: [
      'accounts',
      'clock',
      'config',
      'doctor',
      'errors',
      'http',
      'log',
      'loopback',
      'presence',
    ],
  },
  'proxy/open-connections': {
    enters: ['accounts', 'assistants', 'config', 'errors', 'keychain', 'log'],
  },
  'proxy/open-assistants': { enters: ['accounts', 'assistants', 'config'] },
  'proxy/presence': { enters: ['clock', 'config', 'jsonrpc', 'kept', 'upstream'] },
  'proxy/open-presence': {
    enters: ['clock', 'config', 'errors', 'kept', 'log', 'presence', 'token', 'upstream'],
  },
  'proxy/assistants': {
    enters: ['accounts', 'config', 'editing', 'mcp-remote'],
  },
  'proxy/open-machine': { enters: ['accounts', 'cli', 'config', 'presence', 'token'] },
  'proxy/open-watch': { enters: ['presence'] },
  'proxy/config': { enters: ['http', 'log'] },
  'proxy/mcp-remote': { enters: ['config'] },
  'proxy/editing': { enters: ['clock', 'config'], packages: ['jsonc-parser'] },
  'proxy/bridge': { enters: ['upstream', 'jsonrpc', 'clock', 'log'] },
  'proxy/era': { enters: ['upstream', 'jsonrpc', 'clock', 'log'] },
  'proxy/kept': { enters: ['upstream', 'jsonrpc', 'clock', 'log'] },
  'proxy/upstream': { enters: ['token', 'jsonrpc', 'http', 'clock', 'log'] },
  'proxy/tools': { enters: ['upstream', 'jsonrpc', 'clock', 'log'] },
  'proxy/token': { enters: ['keychain', 'clock', 'log'] },
  'proxy/oauth': { enters: ['http', 'clock', 'log'] },
  'proxy/local-server': {
    enters: ['bridge', 'clock', 'http', 'jsonrpc', 'log', 'tools', 'upstream'],
  },
  'proxy/tunnel': { enters: ['clock', 'http', 'log'], packages: ['ws'] },
  'proxy/agent': {
    enters: ['clock', 'config', 'http', 'keychain', 'local-server', 'log', 'tunnel'],
  },
  'proxy/open-agent': {
    enters: [
      'agent',
      'cli',
      'clock',
      'config',
      'http',
      'keychain',
      'local-server',
      'log',
      'tunnel',
    ],
  },
  'proxy/loopback': { enters: ['config'] },
  'proxy/single-executable': {},
  'proxy/keychain': { packages: ['@napi-rs/keyring'] },
  'proxy/jsonrpc': {},
  'proxy/http': {},
  'proxy/clock': {},
  'proxy/log': {},

  'mcp/headers': {},
  'mcp/json': {},
  'mcp/json-edit': {},
  'mcp/message': {},
  'mcp/sse': {},
  'mcp/subscriptions': {},
  'mcp/top-level-members': {},
  'mcp/translation': {},

  'server/main': {
    enters: [
      'accounts',
      'cli',
      'clock',
      'config',
      'db',
      'download',
      'log',
      'run-command',
      'serve',
      'stage-backup',
    ],
  },
  'server/run-command': {
    enters: ['accounts', 'cli', 'clock', 'command-setup', 'config', 'stage-backup', 'stores'],
  },
  'server/command-setup': {
    enters: ['clock', 'config', 'db', 'oauth', 'outbound', 'upstreams/credentials', 'webhooks'],
  },
  'server/stage-backup': { enters: ['cli', 'config', 'db', 'stores'] },
  'server/serve': {
    enters: [
      'accounts',
      'admin',
      'audit',
      'config',
      'console',
      'db',
      'download',
      'gateway',
      'http',
      'log',
      'oauth',
      'open-senders',
      'organizations',
      'outbound',
      'stores',
      'upstreams',
      'upstreams/credentials',
      'upstreams/tunnel',
      'usage',
      'web',
      'webhooks',
    ],
    packages: ['kysely'],
  },
  'server/open-senders': {
    enters: ['clock', 'log', 'oauth', 'outbound', 'stores', 'upstreams/credentials', 'webhooks'],
  },
  'server/stores': { enters: ['db'] },
  'server/clock': {},
  'server/download': { enters: ['clock'] },
  'server/log': { packages: ['pino'] },
  'server/config': { packages: ['zod'] },
  'server/cli': {
    enters: [
      'accounts',
      'admin',
      'audit',
      'clock',
      'config',
      'db',
      'log',
      'oauth',
      'organizations',
      'upstreams',
      'upstreams/credentials',
    ],
    packages: ['zod'],
  },
  'server/listing': {},
  'server/organizations': { enters: ['clock', 'db', 'listing'] },
  'server/admin': {
    enters: [
      'accounts',
      'audit',
      'clock',
      'config',
      'db',
      'listing',
      'log',
      'oauth',
      'organizations',
      'outbound',
      'tools',
      'upstreams',
      'upstreams/credentials',
      'webhooks',
    ],
    packages: ['zod'],
  },
  'server/accounts': {
    enters: ['audit', 'clock', 'db', 'oauth', 'organizations'],
    packages: ['@simplewebauthn/server', 'openid-client', 'otpauth', 'zod'],
  },
  'server/audit': { enters: ['clock', 'db', 'log'] },
  'server/oauth': {
    enters: ['accounts', 'audit', 'clock', 'db', 'listing', 'organizations'],
    packages: ['jose', 'zod'],
  },
  'server/gateway': {
    enters: ['audit', 'clock', 'db', 'oauth', 'organizations', 'upstreams'],
    packages: ['latchkey-mcp', 'zod'],
  },
  'server/console': { enters: ['gateway', 'tools'], packages: ['zod'] },
  'server/usage': { enters: ['clock', 'db', 'gateway', 'log'] },
  'server/outbound': { packages: ['undici'] },
  'server/tools': {
    enters: ['audit', 'clock', 'db', 'gateway', 'organizations'],
    packages: ['latchkey-mcp'],
  },
  'server/upstreams': {
    enters: [
      'clock',
      'config',
      'db',
      'gateway',
      'log',
      'oauth',
      'organizations',
      'outbound',
      'stores',
      'tools',
      'upstreams/credentials',
      'upstreams/demo',
      'upstreams/skills',
      'upstreams/tunnel',
    ],
    packages: ['undici', 'zod'],
  },
  'server/upstreams/credentials': {
    enters: ['accounts', 'audit', 'clock', 'db', 'gateway', 'oauth', 'organizations', 'outbound'],
    packages: ['openid-client', 'zod'],
  },
  'server/db': {
    enters: [
      'accounts',
      'audit',
      'clock',
      'gateway',
      'listing',
      'oauth',
      'organizations',
      'tools',
      'upstreams',
      'upstreams/credentials',
      'upstreams/tunnel',
      'web',
      'webhooks',
    ],
    packages: ['kysely', 'pg'],
  },
  'server/webhooks': { enters: ['audit', 'clock', 'db', 'oauth', 'outbound'] },
  'server/http': {
    enters: [
      'accounts',
      'admin',
      'audit',
      'clock',
      'db',
      'download',
      'gateway',
      'log',
      'oauth',
      'organizations',
      'upstreams/credentials',
      'upstreams/tunnel',
      'web',
    ],
    packages: ['@fastify/proxy-addr', 'fastify'],
  },
  'server/web': {
    enters: [
      'accounts',
      'admin',
      'audit',
      'clock',
      'console',
      'db',
      'download',
      'http',
      'oauth',
      'organizations',
      'upstreams',
      'upstreams/credentials',
      'upstreams/tunnel',
      'usage',
    ],
    packages: ['d3-scale', 'd3-shape', 'diff', 'fastify', 'qr', 'zod'],
  },
  'server/upstreams/skills': {
    enters: ['db', 'gateway', 'organizations'],
    packages: ['@modelcontextprotocol/server', 'latchkey-mcp', 'zod'],
  },
  'server/upstreams/tunnel': {
    enters: ['clock', 'gateway', 'oauth'],
    packages: ['ws', 'zod'],
  },
  'server/upstreams/demo': {
    enters: ['gateway'],
    packages: ['@modelcontextprotocol/server', 'zod'],
  },

  'tray-app/electron-builder': {},
  'tray-app/entry-point': {},
  'tray-app/main': {
    enters: [
      'answered',
      'answers',
      'app-windows',
      'autostart-file',
      'clipboard-guard',
      'contract',
      'deny-permissions',
      'entry-point',
      'icon-file',
      'live-overview',
      'login-start',
      'may-open',
      'menu',
      'menu-acts',
      'menu-template',
      'notice',
      'page-files',
      'page-response',
      'seal-contents',
      'sign-in-waits',
      'sources-launcher',
      'tray-face',
      'window-look',
    ],
    packages: ['electron'],
  },
  'tray-app/preload': { enters: ['contract'], packages: ['electron'] },
  'tray-app/contract': { packages: ['zod'] },
  'tray-app/app-windows': { enters: ['contract', 'page-files'] },
  'tray-app/answered': { enters: ['answers', 'contract'] },
  'tray-app/answers': {
    enters: [
      'assistant-facts',
      'contract',
      'outcome-of',
      'page-files',
      'secret-words',
      'sign-in-waits',
    ],
  },
  'tray-app/assistant-facts': { enters: ['contract'] },
  'tray-app/connection-facts': { enters: ['contract'] },
  'tray-app/live-overview': {
    enters: ['connection-facts', 'contract', 'notice', 'outcome-of', 'sign-in-waits'],
  },
  'tray-app/outcome-of': { enters: ['contract'] },
  'tray-app/sign-in-waits': { enters: ['contract'] },
  'tray-app/menu': { enters: ['contract', 'secret-words', 'state-words'] },
  'tray-app/menu-acts': { enters: ['answers', 'menu', 'page-files'] },
  'tray-app/menu-template': { enters: ['menu'] },
  'tray-app/autostart-file': { enters: ['login-start'] },
  'tray-app/page-document': { enters: ['page-files'] },
  'tray-app/page-response': { enters: ['page-files'] },
  'tray-app/sources-launcher': {},
  'tray-app/deny-permissions': {},
  'tray-app/seal-contents': {},
  'tray-app/window-look': { enters: ['page-files'] },
  'tray-app/notice': { enters: ['contract', 'secret-words'] },
  'tray-app/secret-words': { enters: ['contract'] },
  'tray-app/state-words': { enters: ['contract'] },
  'tray-app/tray-face': { enters: ['contract'] },
  'tray-app/icon-file': { enters: ['tray-face'] },
  'tray-app/icons': { enters: ['tray-face'] },
  'tray-app/windows': {
    enters: ['contract', 'secret-words', 'state-words'],
    packages: ['lit-html'],
  },
};

/** The one door between packages. */
const doors: Record<string, string[]> = {
  server: ['latchkey/agent'],
  'tray-app': ['latchkey/accounts'],
};

type Import = { from: string; room: string; specifier: string };

const imports = ['mcp', 'proxy', 'server', 'tray-app'].flatMap((program) =>
  readdirSync(join(root, program), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/(^|[/\\])(node_modules|dist)[/\\]/.test(file))
    .flatMap((file): Import[] => {
      const room = `${program}/${roomOf(program, file.replace(/\.ts$/, '').split(sep))}`;
      const source = readFileSync(join(root, program, file), 'utf8');
      const specifiers = source.matchAll(
        /^\s*(?:import|export)\s[^'";]*?from\s*'([^']+)'|^\s*import\s*'([^']+)'|\bimport\(\s*'([^']+)'/gm,
      );
      return [...specifiers].map((match) => ({
        from: relative(root, join(root, program, file)),
        room,
        specifier: match[1] ?? match[2] ?? match[3] ?? '',
      }));
    }),
);

/** The room of a file: the folder with a line of its own that is nearest to the file. */
function roomOf(program: string, [folder = '', inner, ...rest]: readonly string[]): string {
  const nested = `${folder}/${inner}`;
  return rest.length > 0 && rooms[`${program}/${nested}`] ? nested : folder;
}

function trespass({ room, specifier }: Import): string | undefined {
  const [program = '', ...names] = room.split('/');
  const name = names.join('/');
  if (specifier.startsWith('node:')) return undefined;
  if (specifier.startsWith('./')) {
    const imported = roomOf(program, [...names, ...specifier.slice(2).split('/')]);
    return names.length === 1 && imported !== name
      ? `name ${program}/${imported} from the package root, as #${imported}/file`
      : undefined;
  }
  const known = rooms[room];
  if (!known) return 'a room without a line in the table';
  if (specifier.startsWith('../'))
    return 'another room is named from the package root, as #room/file';
  if (specifier.startsWith('#')) {
    const entered = roomOf(program, specifier.slice(1).split('/'));
    if (entered === name || name === 'main') return undefined;
    return known.enters?.includes(entered) ? undefined : `may not enter ${program}/${entered}`;
  }
  if (doors[program]?.includes(specifier)) return undefined;
  const packageName = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  return known.packages?.includes(packageName) ? undefined : `may not use ${packageName}`;
}

test('every import enters a room or a package that its own room may enter', () => {
  const trespasses = imports
    .map((entry) => ({ ...entry, why: trespass(entry) }))
    .filter(({ why }) => why !== undefined)
    .map(({ from, specifier, why }) => `${from}: '${specifier}': ${why}`);

  expect(trespasses).toEqual([]);
});

test('the wire protocol does no input or output', () => {
  const used = imports.filter(({ from }) => from.startsWith('mcp/'));
  const packages = new Set(
    used.map(({ specifier }) => specifier).filter((s) => !s.startsWith('./')),
  );

  expect(packages).toEqual(new Set(['node:assert/strict', 'node:buffer']));
});

test('only main reads process', () => {
  const readers = imports.map(({ from }) => from).filter((file) => !file.endsWith('main.ts'));
  const offenders = [...new Set(readers)].filter((file) =>
    /\bprocess\.(env|argv|exit|std|on|cwd|kill)/.test(readFileSync(join(root, file), 'utf8')),
  );

  expect(offenders).toEqual([]);
});

test('only the tray app’s main and preload know Electron', () => {
  const knowing = imports.filter(({ specifier }) => /^electron(\/|$)/.test(specifier));

  expect(new Set(knowing.map(({ room }) => room))).toEqual(
    new Set(['tray-app/main', 'tray-app/preload']),
  );
});

test('no room is named for what it is made of', () => {
  const vague = new Set(['common', 'shared', 'utils', 'helpers', 'core', 'lib', 'types', 'misc']);
  const names = imports.map(({ room }) => room.split('/')[1] ?? '');

  expect(names.filter((name) => vague.has(name))).toEqual([]);
});
