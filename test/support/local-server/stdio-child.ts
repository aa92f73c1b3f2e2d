// A real MCP server for `latchkey agent` to start: node stdio-child.ts [legacy|modern]
import { appendFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { legacyServer } from '../upstreams/legacy-server.ts';
import { modernServer } from '../upstreams/modern-server.ts';
import { SlowCalls } from '../upstreams/slow-calls.ts';
import { text } from '../upstreams/tool-schemas.ts';

const file = process.env['CHILD_EVENTS'];
/** Writes a line for the test that started this child's agent. */
const tell = (line: string) => {
  if (file !== undefined) appendFileSync(file, `${line}\n`);
};

tell(`started ${process.pid}`);
const slow = new SlowCalls();
void slow.until('started').then(() => tell('slow started'));
void slow.until('cancelled').then(() => tell('slow cancelled'));
if (process.argv[2] === 'modern') serveStdio(() => modernServer(slow, 'modern'));
else {
  const server = legacyServer(slow);
  server.registerTool('environment', {}, () => text(JSON.stringify(process.env)));
  server.registerTool('die', {}, () => process.exit(3));
  server.registerTool('shout', { inputSchema: { line: z.string() } }, ({ line }) => {
    process.stdout.write(`${line}\n`);
    process.stderr.write('noise\n'.repeat(50_000));
    return text('shouted');
  });
  server.registerTool('stubborn', {}, () => {
    const code =
      "for (const s of ['SIGTERM', 'SIGHUP']) process.on(s, () => {}); setInterval(() => {}, 1e6)";
    const grandchild = spawn(process.execPath, ['-e', code], { stdio: 'inherit' });
    for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
    setInterval(() => undefined, 1e6);
    return text(String(grandchild.pid));
  });
  await server.connect(new StdioServerTransport());
}
