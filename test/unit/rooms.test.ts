import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');

/**
 * Who may enter whom, and with which npm packages. `main` marries adapters to decisions and may enter
 * every room of its own package. A room without a line here may not exist.
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

  'server/main': {
    enters: [
      'cli',
      'clock',
      'command-setup',
      'config',
      'download',
      'log',
      'people',
      'serve',
      'stage-backup',
      'stores',
    ],
  },
  'server/command-setup': {
    enters: ['clock', 'config', 'outbound', 'people', 'signing', 'upstream-access', 'webhooks'],
  },
  'server/stage-backup': { enters: ['cli', 'config', 'store', 'stores'] },
  'server/serve': {
    enters: [
      'administration',
      'audit',
      'config',
      'console',
      'credentials',
      'dashboard',
      'download',
      'eras',
      'gateway',
      'http',
      'oauth',
      'open-senders',
      'open-upstreams',
      'openid',
      'organizations',
      'outbound',
      'people',
      'signing',
      'store',
      'stores',
      'tunnel',
      'upstream-access',
      'usage',
      'webhooks',
    ],
    packages: ['kysely'],
  },
  'server/open-senders': {
    enters: ['clock', 'log', 'outbound', 'signing', 'stores', 'upstream-access', 'webhooks'],
  },
  'server/open-upstreams': {
    enters: [
      'clock',
      'demo',
      'gateway',
      'log',
      'organizations',
      'outbound',
      'signing',
      'skills',
      'store',
      'stores',
      'tools',
      'tunnel',
      'upstream',
      'upstream-access',
    ],
  },
  'server/stores': { enters: ['store'] },
  'server/clock': {},
  'server/download': { enters: ['clock'] },
  'server/log': { packages: ['pino'] },
  'server/config': { packages: ['zod'] },
  'server/cli': {
    enters: [
      'administration',
      'audit',
      'clock',
      'config',
      'credentials',
      'log',
      'organizations',
      'people',
      'signing',
    ],
    packages: ['zod'],
  },
  'server/listing': {},
  'server/credentials': { enters: ['clock', 'listing'] },
  'server/organizations': { enters: ['clock', 'listing'] },
  'server/administration': {
    enters: [
      'audit',
      'clock',
      'credentials',
      'listing',
      'log',
      'oauth',
      'organizations',
      'outbound',
      'people',
      'tools',
      'upstream-access',
      'webhooks',
    ],
    packages: ['zod'],
  },
  'server/people': {
    enters: ['audit', 'clock', 'credentials', 'organizations'],
    packages: ['@simplewebauthn/server', 'otpauth', 'zod'],
  },
  'server/audit': { enters: ['clock', 'log'] },
  'server/signing': { enters: ['clock', 'credentials'], packages: ['jose', 'zod'] },
  'server/oauth': {
    enters: ['audit', 'clock', 'credentials', 'listing', 'organizations', 'people', 'signing'],
    packages: ['jose', 'zod'],
  },
  'server/gateway': {
    enters: ['audit', 'clock', 'credentials', 'oauth', 'organizations', 'signing'],
    packages: ['zod'],
  },
  'server/eras': { enters: ['clock', 'credentials', 'gateway', 'organizations'] },
  'server/console': { enters: ['gateway'], packages: ['zod'] },
  'server/usage': { enters: ['clock', 'gateway', 'log'] },
  'server/outbound': { packages: ['undici'] },
  'server/upstream': {
    enters: ['clock', 'gateway', 'organizations', 'outbound'],
    packages: ['undici'],
  },
  'server/tools': { enters: ['audit', 'clock', 'gateway', 'organizations'] },
  'server/upstream-access': {
    enters: [
      'audit',
      'clock',
      'credentials',
      'gateway',
      'organizations',
      'outbound',
      'people',
      'signing',
    ],
    packages: ['openid-client', 'zod'],
  },
  'server/tunnel': { enters: ['clock', 'credentials', 'gateway'], packages: ['ws', 'zod'] },
  'server/store': {
    enters: [
      'audit',
      'credentials',
      'dashboard',
      'gateway',
      'oauth',
      'organizations',
      'people',
      'signing',
      'tools',
      'tunnel',
      'upstream-access',
      'usage',
      'webhooks',
    ],
    packages: ['kysely'],
  },
  'server/webhooks': { enters: ['audit', 'clock', 'outbound', 'people'] },
  'server/api': { enters: ['administration'], packages: ['zod'] },
  'server/http': {
    enters: [
      'administration',
      'api',
      'audit',
      'clock',
      'credentials',
      'download',
      'gateway',
      'log',
      'oauth',
      'organizations',
      'pages',
      'people',
      'signing',
      'tunnel',
      'upstream-access',
    ],
    packages: ['@fastify/proxy-addr', 'fastify', 'qr'],
  },
  'server/dashboard': {
    enters: [
      'administration',
      'audit',
      'clock',
      'console',
      'credentials',
      'download',
      'http',
      'oauth',
      'organizations',
      'pages',
      'people',
      'tunnel',
      'upstream-access',
      'usage',
    ],
    packages: ['diff', 'fastify', 'zod'],
  },
  'server/openid': { enters: ['people'], packages: ['openid-client'] },
  'server/pages': {
    enters: ['clock', 'credentials', 'download'],
    packages: ['d3-scale', 'd3-shape', 'eta'],
  },
  'server/skills': {
    enters: ['gateway', 'organizations'],
    packages: ['@modelcontextprotocol/server', 'zod'],
  },
  'server/demo': { packages: ['@modelcontextprotocol/server', 'zod'] },

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

const imports = ['proxy', 'server', 'tray-app'].flatMap((program) =>
  readdirSync(join(root, program), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/(^|[/\\])(node_modules|dist)[/\\]/.test(file))
    .flatMap((file): Import[] => {
      const [folder = '', ...rest] = file.split(sep);
      const room = `${program}/${rest.length ? folder : folder.replace(/\.ts$/, '')}`;
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

function trespass({ room, specifier }: Import): string | undefined {
  if (specifier.startsWith('node:') || specifier.startsWith('./')) return undefined;
  const [program = '', name = ''] = room.split('/');
  const known = rooms[room];
  if (!known) return 'a room without a line in the table';
  if (specifier.startsWith('../'))
    return 'another room is named from the package root, as #room/file';
  if (specifier.startsWith('#')) {
    const [entered = ''] = specifier.slice(1).split('/');
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
