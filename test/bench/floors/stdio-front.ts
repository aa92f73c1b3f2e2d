/**
 * The floor of a bridge from HTTP to stdio: each body becomes a line for the child, and the child's next line with the same
 * id is the answer. Nothing is checked, and all callers share the child.
 *
 *     node stdio-front.ts SCRIPT
 */
import { spawn } from 'node:child_process';
import { createServer, type ServerResponse } from 'node:http';
import { listen } from '#support/loopback';

const child = spawn(process.execPath, [process.argv[2] ?? ''], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
process.on('exit', () => child.kill());
process.stdin.on('end', () => process.exit(0)).resume();
const waiting = new Map<string, ServerResponse>();
const idOf = (line: string) => /"id":(\d+)/.exec(line)?.[1] ?? '';

let rest = '';
child.stdout.setEncoding('utf8').on('data', (text: string) => {
  const lines = (rest + text).split('\n');
  rest = lines.pop() ?? '';
  for (const line of lines) {
    const response = waiting.get(idOf(line));
    waiting.delete(idOf(line));
    response?.writeHead(200, { 'content-type': 'application/json' }).end(line);
  }
});

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => (body += text));
  request.on('end', () => {
    waiting.set(idOf(body), response);
    child.stdin.write(`${body}\n`);
  });
});

console.log(`listening on http://127.0.0.1:${await listen(server)}`);
