import { join } from 'node:path';
import type { Command } from './assistant.ts';

/** A stdio proxy in the race. */
export interface ProxyContender {
  readonly name: string;
  /** The argument of `npm install`: a package and its version, or the folder of a package. */
  readonly installs?: string;
  /** Runs in a session that has a keyring, and uses the token that the keyring holds. */
  readonly keychain?: boolean;
  /** The program and its arguments, after `node`. */
  readonly args: (targetOrigin: string) => readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const root = join(import.meta.dirname, '../..');
/** The sources, unless `BENCH_LATCHKEY` names a folder with the package as it is published. */
const latchkey = join(process.env['BENCH_LATCHKEY'] ?? join(root, 'proxy'), 'bin/latchkey.js');
/** The folder of another version of the package, which takes part so that the two can be compared. */
const before = process.env['BENCH_LATCHKEY_BEFORE'];

/** The first is the floor: the table shows the others as ratios to it. */
export const proxyContenders: readonly ProxyContender[] = [
  {
    name: 'bare pipe',
    args: (origin) => [join(import.meta.dirname, 'floors/stdio-pipe.mjs'), `${origin}/mcp`],
  },
  {
    // A static header, so that it needs no sign-in; the variable keeps it out of the arguments.
    name: 'mcp-remote 0.15.1',
    installs: 'mcp-remote@0.15.1',
    args: (origin) => [
      join(root, 'node_modules/mcp-remote/dist/proxy.js'),
      `${origin}/mcp`,
      '--header',
      'X-API-Key:${API_KEY}',
      '--silent',
    ],
    env: { API_KEY: 'mcp_bench' },
  },
  {
    name: 'supergateway 4.0.0',
    installs: 'supergateway@4.0.0',
    args: (origin) => [
      join(root, 'node_modules/supergateway/dist/index.js'),
      '--streamableHttp',
      `${origin}/mcp`,
      '--header',
      'X-API-Key: mcp_bench',
      '--logLevel',
      'none',
    ],
  },
  {
    name: 'mcp-proxy 6.7.19',
    installs: 'mcp-proxy@6.7.19',
    args: (origin) => [join(import.meta.dirname, 'peers/mcp-proxy.mjs'), `${origin}/mcp`],
    env: { API_KEY: 'mcp_bench' },
  },
  ...latchkeys('latchkey', latchkey),
  ...(before === undefined ? [] : latchkeys('before', join(before, 'bin/latchkey.js'))),
];

/** One version of Latchkey, with an API key and with a token. */
function latchkeys(name: string, script: string): ProxyContender[] {
  return [
    {
      name: `${name}, API key`,
      ...(name === 'latchkey' && { installs: join(root, 'proxy') }),
      args: (origin) => [script, `${origin}/mcp`],
      env: { LATCHKEY_API_KEY: 'mcp_bench' },
    },
    {
      // The trial start before the race signs in; every measured one reads its token from the keychain.
      name: `${name}, token from the keychain`,
      keychain: true,
      args: (origin) => [script, `${origin}/signed-in`],
      env: { LATCHKEY_OAUTH: JSON.stringify({ clientId: 'client_bench', clientSecret: 'bench' }) },
    },
  ];
}

/** The command line of `contender`, with a home of its own and the same Node as ours. */
export function commandOf(
  { args, env }: ProxyContender,
  targetOrigin: string,
  session: Readonly<Record<string, string>>,
  home: string,
): Command {
  return {
    command: process.execPath,
    args: args(targetOrigin),
    env: { HOME: home, ...session, ...env },
  };
}
