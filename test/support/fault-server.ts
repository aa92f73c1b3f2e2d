/** A server process that can be killed: `node fault-server.ts PORT json|sse`; it prints what it receives. */
import { createServer } from 'node:http';
import { faultMcp } from '#support/fault-mcp';

const [port, kind] = process.argv.slice(2);
const say = (line: string) => void process.stdout.write(`${line}\n`);
const { handle } = faultMcp(kind === 'sse' ? 'sse' : 'json', say);
const server = createServer((request, response) => void handle(request, response));
server.listen(Number(port), '127.0.0.1', () =>
  say(`listening ${JSON.stringify(server.address())}`),
);
