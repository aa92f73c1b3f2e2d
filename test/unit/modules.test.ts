import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, test } from 'vitest';
import { circlesIn, importGraph, specifiersIn } from '#support/import-graph';

const root = join(import.meta.dirname, '../..');

/**
 * The modules: which others each may import, and which npm packages. A module is a folder, a file beside the folders,
 * or a folder within a folder that has a line of its own, such as `server/upstreams/demo`. Each has a line here, after the
 * modules that it imports.
 */
const modules: Record<string, { imports?: string[]; packages?: string[] }> = {
  'proxy/version': {},
  'proxy/clock': {},
  'proxy/atomic-file': {},
  'proxy/shell-word': {},
  'proxy/key-file-commands': {},
  'proxy/log': { packages: ['latchkey-mcp'] },
  'proxy/transport': { imports: ['clock', 'log'], packages: ['latchkey-mcp'] },
  'proxy/keychain': {
    imports: ['clock', 'shell-word', 'key-file-commands', 'atomic-file'],
    packages: ['@napi-rs/keyring'],
  },
  'proxy/host': { imports: ['clock', 'transport', 'keychain'] },
  'proxy/config': {
    imports: ['shell-word', 'key-file-commands', 'atomic-file', 'log', 'transport', 'host'],
    packages: ['jsonc-parser', 'latchkey-mcp'],
  },
  'proxy/auth': {
    imports: ['clock', 'log', 'transport', 'keychain', 'host', 'config'],
    packages: ['latchkey-mcp'],
  },
  'proxy/pipeline': {
    imports: ['clock', 'atomic-file', 'log', 'transport', 'host', 'config', 'auth'],
    packages: ['latchkey-mcp'],
  },
  'proxy/status': {
    imports: ['clock', 'log', 'transport', 'keychain', 'host', 'config', 'auth', 'pipeline'],
    packages: ['fflate', 'latchkey-mcp'],
  },
  'proxy/connections': {
    imports: [
      'clock',
      'atomic-file',
      'shell-word',
      'transport',
      'keychain',
      'host',
      'config',
      'auth',
      'status',
    ],
    packages: ['latchkey-mcp'],
  },
  'proxy/agent': {
    imports: ['clock', 'shell-word', 'log', 'transport', 'keychain', 'config', 'pipeline'],
    packages: ['cross-spawn', 'latchkey-mcp', 'ws'],
  },
  'proxy/errors': {
    imports: ['key-file-commands', 'transport', 'keychain', 'config', 'auth', 'pipeline', 'agent'],
    packages: ['latchkey-mcp'],
  },
  'proxy/cli': {
    imports: [
      'clock',
      'transport',
      'keychain',
      'config',
      'auth',
      'pipeline',
      'status',
      'connections',
      'agent',
    ],
    packages: ['latchkey-mcp'],
  },
  'proxy/app': {
    imports: [
      'version',
      'key-file-commands',
      'clock',
      'log',
      'transport',
      'keychain',
      'host',
      'config',
      'auth',
      'pipeline',
      'status',
      'connections',
      'agent',
      'errors',
      'cli',
    ],
    packages: ['latchkey-mcp'],
  },
  'proxy/main': {
    imports: [
      'version',
      'clock',
      'log',
      'transport',
      'keychain',
      'host',
      'config',
      'auth',
      'pipeline',
      'agent',
      'errors',
      'cli',
      'app',
    ],
    packages: ['latchkey-mcp'],
  },

  'mcp/headers': {},
  'mcp/json': {},
  'mcp/json-edit': {},
  'mcp/json-value': {},
  'mcp/message': {},
  'mcp/raw-message': {},
  'mcp/safe-text': {},
  'mcp/sse': {},
  'mcp/subscriptions': {},
  'mcp/suggest': {},
  'mcp/top-level-members': {},
  'mcp/trace-options': {},
  'mcp/tracing': {
    packages: [
      '@opentelemetry/api',
      '@opentelemetry/exporter-trace-otlp-http',
      '@opentelemetry/resources',
      '@opentelemetry/sdk-trace',
    ],
  },
  'mcp/translation': {},
  'mcp/tunnel-frames': {},

  'server/model': { packages: ['zod'] },
  'server/secrets': { imports: ['model'] },
  'server/config': { imports: ['model'], packages: ['latchkey-mcp', 'zod'] },
  'server/log': { packages: ['latchkey-mcp', 'pino'] },
  'server/outbound': { imports: ['model'], packages: ['latchkey-mcp', 'undici', 'zod'] },
  'server/db': { imports: ['model', 'config', 'outbound'], packages: ['kysely', 'pg'] },
  'server/audit': { imports: ['model', 'db'], packages: ['latchkey-mcp'] },
  'server/accounts': {
    imports: ['model', 'secrets', 'outbound', 'db', 'audit'],
    packages: ['@simplewebauthn/server', 'jose', 'latchkey-mcp', 'openid-client', 'otpauth', 'zod'],
  },
  'server/oauth': {
    imports: ['model', 'secrets', 'outbound', 'db', 'accounts'],
    packages: ['jose', 'latchkey-mcp', 'zod'],
  },
  'server/webhooks': { imports: ['model', 'secrets', 'outbound', 'db', 'audit'] },
  'server/mail': {
    imports: ['model', 'secrets', 'outbound', 'db'],
    packages: ['latchkey-mcp', 'nodemailer', 'zod'],
  },
  'server/gateway': {
    imports: ['model', 'secrets', 'db', 'audit', 'oauth'],
    packages: ['latchkey-mcp', 'zod'],
  },
  'server/tools': { imports: ['model', 'db', 'gateway'], packages: ['latchkey-mcp'] },
  'server/upstreams/credentials': {
    imports: ['model', 'secrets', 'outbound', 'db', 'oauth', 'accounts', 'gateway'],
    packages: ['openid-client', 'zod'],
  },
  'server/upstreams/demo': {
    imports: ['config', 'gateway'],
    packages: ['@modelcontextprotocol/server', 'zod'],
  },
  'server/upstreams/skills': {
    imports: ['model', 'gateway'],
    packages: ['@modelcontextprotocol/server', 'latchkey-mcp', 'zod'],
  },
  'server/upstreams/collection': { imports: ['model', 'gateway'], packages: ['latchkey-mcp'] },
  'server/upstreams/tunnel': {
    imports: ['model', 'secrets', 'db', 'gateway'],
    packages: ['latchkey-mcp', 'ws'],
  },
  'server/nodes': {
    imports: ['model', 'secrets', 'config', 'db', 'gateway', 'upstreams/tunnel'],
    packages: ['@nats-io/transport-node', 'kysely', 'latchkey-mcp', 'zod'],
  },
  'server/upstreams': {
    imports: ['model', 'outbound', 'db', 'gateway', 'tools', 'upstreams/tunnel'],
    packages: ['latchkey-mcp', 'undici', 'zod'],
  },
  'server/console': { imports: ['gateway', 'tools'], packages: ['latchkey-mcp', 'zod'] },
  'server/activity': {
    imports: ['model', 'secrets', 'db', 'audit', 'gateway'],
    packages: ['latchkey-mcp'],
  },
  'server/usage': { imports: ['model', 'db', 'gateway'], packages: ['latchkey-mcp'] },
  'server/metrics': { imports: ['gateway'] },
  'server/download': { imports: ['model'], packages: ['fflate', 'zod'] },
  'server/deployment': { imports: ['model'] },
  'server/admin': {
    imports: [
      'model',
      'secrets',
      'config',
      'outbound',
      'db',
      'activity',
      'usage',
      'audit',
      'oauth',
      'accounts',
      'webhooks',
      'mail',
      'tools',
      'upstreams/credentials',
      'deployment',
    ],
    packages: ['latchkey-mcp', 'zod'],
  },
  'server/notices': { imports: ['model', 'db', 'mail', 'admin'], packages: ['latchkey-mcp'] },
  'server/cli': {
    imports: ['model', 'secrets', 'config', 'outbound', 'db', 'oauth', 'nodes', 'admin'],
    packages: ['kysely', 'latchkey-mcp'],
  },
  'server/http': {
    imports: [
      'model',
      'log',
      'db',
      'audit',
      'oauth',
      'accounts',
      'gateway',
      'upstreams/credentials',
      'upstreams/tunnel',
      'deployment',
      'admin',
    ],
    packages: ['@fastify/proxy-addr', 'fastify', 'latchkey-mcp'],
  },
  'server/scim': {
    imports: ['model', 'secrets', 'db', 'audit', 'oauth', 'accounts', 'http'],
    packages: ['fastify', 'latchkey-mcp'],
  },
  'server/web': {
    imports: [
      'model',
      'secrets',
      'config',
      'outbound',
      'db',
      'audit',
      'oauth',
      'accounts',
      'tools',
      'upstreams/credentials',
      'upstreams/tunnel',
      'nodes',
      'upstreams',
      'console',
      'activity',
      'usage',
      'download',
      'deployment',
      'admin',
      'http',
    ],
    packages: ['d3-scale', 'diff', 'fastify', 'latchkey-mcp', 'qr', 'zod'],
  },
  'server/app': {
    imports: [
      'model',
      'secrets',
      'config',
      'log',
      'outbound',
      'db',
      'audit',
      'oauth',
      'accounts',
      'webhooks',
      'mail',
      'gateway',
      'tools',
      'upstreams/credentials',
      'upstreams/collection',
      'upstreams/demo',
      'upstreams/skills',
      'upstreams/tunnel',
      'nodes',
      'upstreams',
      'console',
      'activity',
      'usage',
      'metrics',
      'download',
      'admin',
      'notices',
      'cli',
      'http',
      'scim',
      'web',
    ],
    packages: ['fastify', 'kysely', 'latchkey-mcp'],
  },
  'server/main': {
    imports: ['model', 'config', 'db', 'accounts', 'cli', 'app'],
    packages: ['latchkey-mcp'],
  },

  'tray-app/build': {},
  'tray-app/model': { packages: ['zod'] },
  'tray-app/main': { imports: ['model'], packages: ['electron'] },
  'tray-app/pages': { imports: ['model'], packages: ['lit-html'] },
};

/** The only imports from one program to another. */
const betweenPrograms: Record<string, string[]> = {
  server: ['latchkey/agent'],
  'tray-app': ['latchkey/accounts'],
};

type Import = { from: string; module: string; specifier: string };

const imports = ['mcp', 'proxy', 'server', 'tray-app'].flatMap((program) =>
  readdirSync(join(root, program), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/(^|[/\\])(node_modules|dist)[/\\]/.test(file))
    .flatMap((file): Import[] => {
      const module = `${program}/${moduleOf(program, file.replace(/\.ts$/, '').split(sep))}`;
      const source = readFileSync(join(root, program, file), 'utf8');
      return specifiersIn(source).map((specifier) => ({
        from: relative(root, join(root, program, file)),
        module,
        specifier,
      }));
    }),
);

/** The module of a file: the nearest folder that has a line of its own. */
function moduleOf(program: string, [folder = '', inner, ...rest]: readonly string[]): string {
  const nested = `${folder}/${inner}`;
  return rest.length > 0 && modules[`${program}/${nested}`] ? nested : folder;
}

function violation({ module, specifier }: Import): string | undefined {
  const [program = '', ...names] = module.split('/');
  const name = names.join('/');
  if (specifier.startsWith('node:')) return undefined;
  if (specifier.startsWith('./')) {
    const imported = moduleOf(program, [...names, ...specifier.slice(2).split('/')]);
    return names.length === 1 && imported !== name
      ? `name ${program}/${imported} from the package root, as #${imported}/file`
      : undefined;
  }
  const known = modules[module];
  if (!known) return 'a module without a line in the table';
  if (specifier.startsWith('../'))
    return 'name another module from the package root, as #module/file';
  if (specifier.startsWith('#')) {
    const imported = moduleOf(program, specifier.slice(1).split('/'));
    if (imported === name || name === 'main') return undefined;
    return known.imports?.includes(imported) ? undefined : `may not import ${program}/${imported}`;
  }
  if (betweenPrograms[program]?.includes(specifier)) return undefined;
  const packageName = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  return known.packages?.includes(packageName) ? undefined : `may not use ${packageName}`;
}

test('every module imports only the modules and packages that the table allows', () => {
  const violations = imports
    .map((entry) => ({ ...entry, why: violation(entry) }))
    .filter(({ why }) => why !== undefined)
    .map(({ from, specifier, why }) => `${from}: '${specifier}': ${why}`);

  expect(violations).toEqual([]);
});

test('every module imports only modules that stand before it in the table', () => {
  const order = Object.keys(modules);
  const backward = order.flatMap((module) => {
    const [program = ''] = module.split('/');
    const later = (modules[module]?.imports ?? []).filter(
      (imported) => order.indexOf(`${program}/${imported}`) >= order.indexOf(module),
    );
    return later.map((imported) => `${module} imports ${imported}`);
  });

  expect(backward).toEqual([]);
});

test('no files import each other in a circle, not even by their types or on demand', () => {
  expect(circlesIn(importGraph())).toEqual([]);
});

test('the search for circles finds every one, however long, and nothing else', () => {
  const graph = new Map([
    ['a', ['b', 'd']],
    ['b', ['c']],
    ['c', ['a']],
    ['d', ['e', 'c']],
    ['e', ['f']],
    ['f', ['e']],
    ['g', ['a']],
  ]);

  expect(circlesIn(graph)).toEqual([
    ['e', 'f'],
    ['a', 'b', 'c', 'd'],
  ]);
});

test('the wire protocol does no input or output', () => {
  const used = imports.filter(({ from }) => from.startsWith('mcp/') && from !== 'mcp/tracing.ts');
  const packages = new Set(
    used.map(({ specifier }) => specifier).filter((s) => !s.startsWith('./')),
  );

  expect(packages).toEqual(new Set(['node:assert/strict', 'node:buffer']));
});

test('traces: what sends them is loaded on demand, so that a program without a collector loads none of it', () => {
  const eager = ['proxy', 'server'].flatMap((program) =>
    readdirSync(join(root, program), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !/(^|[/\\])(node_modules|dist)[/\\]/.test(file))
      .filter((file) =>
        /^import (?!type )[^;]*'latchkey-mcp\/tracing'/m.test(
          readFileSync(join(root, program, file), 'utf8'),
        ),
      ),
  );

  expect(eager).toEqual([]);
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

  expect(new Set(knowing.map(({ from }) => from))).toEqual(
    new Set(['main', 'preload'].map((name) => join('tray-app/main', `${name}.ts`))),
  );
});

test('no module is named for what it is made of', () => {
  const vague = new Set(['common', 'shared', 'utils', 'helpers', 'core', 'lib', 'types', 'misc']);
  const names = imports.map(({ module }) => module.split('/')[1] ?? '');

  expect(names.filter((name) => vague.has(name))).toEqual([]);
});
