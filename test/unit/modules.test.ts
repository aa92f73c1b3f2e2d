import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, test } from 'vitest';
import { specifiersIn } from '#support/import-graph';

const root = join(import.meta.dirname, '../..');

/**
 * The modules: which others each may import, and which npm packages. A module is a folder, a file beside the folders,
 * or a folder within a folder that has a line of its own, such as `server/upstreams/demo`. Each has a line here.
 * `main` wires them and may itself be imported by any module of its program.
 */
const modules: Record<string, { imports?: string[]; packages?: string[] }> = {
  'proxy/app': {
    imports: [
      'auth',
      'clock',
      'config',
      'errors',
      'host',
      'keychain',
      'log',
      'pipeline',
      'status',
      'tracing',
      'transport',
    ],
    packages: ['latchkey-mcp'],
  },
  'proxy/app-accounts': {
    imports: [
      'auth',
      'clock',
      'config',
      'errors',
      'host',
      'keychain',
      'log',
      'status',
      'transport',
    ],
  },
  'proxy/app-agent': {
    imports: ['agent', 'cli', 'clock', 'config', 'host', 'keychain', 'log', 'tracing', 'transport'],
    packages: ['latchkey-mcp'],
  },
  'proxy/tracing': { imports: ['log'], packages: ['latchkey-mcp'] },
  'proxy/errors': {
    imports: ['agent', 'auth', 'config', 'keychain', 'log', 'pipeline', 'transport'],
    packages: ['latchkey-mcp'],
  },
  'proxy/host': {
    imports: ['auth', 'clock', 'config', 'keychain', 'pipeline', 'status', 'transport'],
  },
  'proxy/main': {
    imports: [
      'agent',
      'auth',
      'cli',
      'clock',
      'config',
      'errors',
      'host',
      'keychain',
      'log',
      'pipeline',
      'transport',
    ],
  },
  'proxy/agent': {
    imports: ['clock', 'config', 'keychain', 'log', 'pipeline', 'transport'],
    packages: ['cross-spawn', 'latchkey-mcp', 'ws'],
  },
  'proxy/auth': { imports: ['clock', 'config', 'host', 'keychain', 'log', 'status', 'transport'] },
  'proxy/cli': {
    imports: [
      'agent',
      'auth',
      'clock',
      'config',
      'host',
      'keychain',
      'pipeline',
      'status',
      'transport',
    ],
  },
  'proxy/clock': {},
  'proxy/config': {
    imports: ['auth', 'clock', 'host', 'log', 'transport'],
    packages: ['jsonc-parser'],
  },
  'proxy/keychain': { imports: ['host'], packages: ['@napi-rs/keyring'] },
  'proxy/log': {},
  'proxy/pipeline': {
    imports: ['clock', 'config', 'host', 'log', 'transport'],
    packages: ['latchkey-mcp'],
  },
  'proxy/status': {
    imports: ['auth', 'clock', 'config', 'host', 'keychain', 'log', 'pipeline', 'transport'],
    packages: ['fflate', 'latchkey-mcp'],
  },
  'proxy/transport': { imports: ['auth', 'clock', 'log'], packages: ['latchkey-mcp'] },

  'mcp/headers': {},
  'mcp/json': {},
  'mcp/json-edit': {},
  'mcp/message': {},
  'mcp/raw-message': {},
  'mcp/sse': {},
  'mcp/subscriptions': {},
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

  'server/main': {
    imports: [
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
      'supervisor',
    ],
    packages: ['latchkey-mcp'],
  },
  'server/supervisor': { imports: ['config', 'log', 'nodes'] },
  'server/run-command': {
    imports: [
      'accounts',
      'cli',
      'clock',
      'command-setup',
      'config',
      'outbound',
      'stage-backup',
      'stores',
    ],
  },
  'server/command-setup': {
    imports: ['clock', 'config', 'db', 'oauth', 'outbound', 'upstreams/credentials', 'webhooks'],
  },
  'server/stage-backup': { imports: ['cli', 'config', 'db', 'stores'] },
  'server/serve': {
    imports: [
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
      'metrics',
      'nodes',
      'oauth',
      'open-metrics',
      'open-nodes',
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
  'server/open-nodes': { imports: ['gateway', 'log', 'nodes', 'oauth', 'stores'] },
  'server/open-senders': {
    imports: ['clock', 'log', 'oauth', 'outbound', 'stores', 'upstreams/credentials', 'webhooks'],
  },
  'server/stores': { imports: ['config', 'db', 'gateway', 'upstreams/tunnel', 'web'] },
  'server/open-metrics': {
    imports: ['gateway', 'log', 'metrics', 'nodes', 'oauth', 'stores', 'upstreams/tunnel', 'usage'],
    packages: ['kysely'],
  },
  'server/metrics': { imports: ['gateway'] },
  'server/nodes': {
    imports: ['clock', 'config', 'db', 'gateway', 'limited-map', 'oauth', 'upstreams/tunnel'],
    packages: ['@nats-io/transport-node', 'kysely', 'latchkey-mcp', 'zod'],
  },
  'server/awaitable': {},
  'server/limited-map': {},
  'server/clock': {},
  'server/download': { imports: ['clock'], packages: ['fflate', 'zod'] },
  'server/log': { packages: ['pino'] },
  'server/config': { packages: ['zod'] },
  'server/cli': {
    imports: [
      'accounts',
      'admin',
      'audit',
      'clock',
      'config',
      'db',
      'log',
      'nodes',
      'oauth',
      'organizations',
      'outbound',
      'upstreams',
      'upstreams/credentials',
    ],
    packages: ['kysely', 'zod'],
  },
  'server/listing': {},
  'server/organizations': { imports: ['clock', 'db', 'listing'] },
  'server/admin': {
    imports: [
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
    imports: ['audit', 'clock', 'db', 'oauth', 'organizations'],
    packages: ['@simplewebauthn/server', 'openid-client', 'otpauth', 'zod'],
  },
  'server/audit': { imports: ['clock', 'db', 'log'] },
  'server/oauth': {
    imports: [
      'accounts',
      'audit',
      'awaitable',
      'clock',
      'db',
      'limited-map',
      'listing',
      'organizations',
      'outbound',
    ],
    packages: ['jose', 'latchkey-mcp', 'zod'],
  },
  'server/gateway': {
    imports: [
      'audit',
      'awaitable',
      'clock',
      'db',
      'limited-map',
      'oauth',
      'organizations',
      'upstreams',
    ],
    packages: ['latchkey-mcp', 'zod'],
  },
  'server/console': { imports: ['gateway', 'tools'], packages: ['zod'] },
  'server/usage': { imports: ['clock', 'db', 'gateway', 'limited-map', 'log'] },
  'server/outbound': { imports: ['limited-map'], packages: ['undici', 'zod'] },
  'server/tools': {
    imports: ['audit', 'clock', 'db', 'gateway', 'limited-map', 'organizations'],
    packages: ['latchkey-mcp'],
  },
  'server/upstreams': {
    imports: [
      'clock',
      'config',
      'db',
      'gateway',
      'limited-map',
      'log',
      'nodes',
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
    packages: ['latchkey-mcp', 'undici', 'zod'],
  },
  'server/upstreams/credentials': {
    imports: ['accounts', 'audit', 'clock', 'db', 'gateway', 'oauth', 'organizations', 'outbound'],
    packages: ['openid-client', 'zod'],
  },
  'server/db': {
    imports: [
      'accounts',
      'audit',
      'awaitable',
      'clock',
      'config',
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
  'server/webhooks': { imports: ['audit', 'clock', 'db', 'limited-map', 'oauth', 'outbound'] },
  'server/http': {
    imports: [
      'accounts',
      'admin',
      'audit',
      'awaitable',
      'clock',
      'db',
      'download',
      'gateway',
      'limited-map',
      'log',
      'oauth',
      'organizations',
      'upstreams/credentials',
      'upstreams/tunnel',
      'web',
    ],
    packages: ['@fastify/proxy-addr', 'fastify', 'latchkey-mcp'],
  },
  'server/web': {
    imports: [
      'accounts',
      'admin',
      'audit',
      'clock',
      'config',
      'console',
      'db',
      'download',
      'http',
      'limited-map',
      'nodes',
      'oauth',
      'organizations',
      'outbound',
      'upstreams',
      'upstreams/credentials',
      'upstreams/tunnel',
      'usage',
    ],
    packages: ['d3-scale', 'diff', 'fastify', 'qr', 'zod'],
  },
  'server/upstreams/skills': {
    imports: ['db', 'gateway', 'organizations'],
    packages: ['@modelcontextprotocol/server', 'latchkey-mcp', 'zod'],
  },
  'server/upstreams/tunnel': {
    imports: ['clock', 'db', 'gateway', 'limited-map', 'oauth'],
    packages: ['latchkey-mcp', 'ws'],
  },
  'server/upstreams/demo': {
    imports: ['gateway'],
    packages: ['@modelcontextprotocol/server', 'zod'],
  },

  'tray-app/build': {},
  'tray-app/main': { imports: ['model'], packages: ['electron'] },
  'tray-app/model': { packages: ['zod'] },
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
