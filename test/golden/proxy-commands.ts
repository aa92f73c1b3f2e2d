import type { Terminal } from './terminal.ts';

/** The commands of the proxy that need no browser; `key` opens the endpoint of `acme/library`. */
export async function useProxy(
  { run }: Terminal,
  { base, key }: { readonly base: string; readonly key: string },
): Promise<void> {
  const url = `${base}/mcp/acme/library`;
  await run('status');
  await run(`add work ${url} --api-key`, `${key}\n`);
  await run(`add work ${url} --api-key`, `${key}\n`);
  await run(`add wrong ${base}/mcp/globex/none --api-key`, `mcp_${'0'.repeat(36)}\n`);
  await run('add bare https://latchkey.example.com/mcp/acme/library --no-check');
  await run('status');
  await run('status work');
  await run('tools work');
  await run('install claude-code work --config ./assistant.json');
  await run('install claude-code work --config ./assistant.json');
  await run('uninstall claude-code work --config ./assistant.json');
  await run('import ./assistant.json --dry-run');
  await run('rename work bare');
  await run('rename work play');
  await run('rename play work --json');
  await run('rotate work', `${key}\n`);
  await run('rotate bare');
  await run('rotate work --undo');
  await run('remove work');
  await run('remove work');
  await run('status nothing');
  await run('status --all');
}

/** The help pages to record. Those of the other commands say the same as `docs/cli-latchkey.md`. */
export const proxyHelpPages = ['--help', 'status --help', '--version'];
