/** An assistant that can be killed: `node dying-assistant.ts LAUNCHER URL`; it prints the pid of its proxy. */
import { spawn } from 'node:child_process';

const [launcher = '', url = ''] = process.argv.slice(2);
const proxy = spawn(process.execPath, [launcher, url], { stdio: ['pipe', 'pipe', 'inherit'] });
const say = (message: object) =>
  proxy.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
process.stdout.write(`proxy ${proxy.pid}\n`);
proxy.stdout.once('data', () => {
  say({ method: 'notifications/initialized' });
  say({ id: 2, method: 'tools/call', params: { name: 'hold', arguments: { n: 1 } } });
});
const clientInfo = { name: 'assistant', version: '1' };
say({
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
});
