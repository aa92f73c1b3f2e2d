import { Agent, request } from 'node:http';

const agent = new Agent({ keepAlive: true });

/** A tool call without any proxy: the baseline for the latency of every proxy. */
export function callDirectly(origin: string, tool: string): Promise<string> {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: tool, arguments: { text: 'hello' } },
  });
  const headers = { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const outgoing = request(`${origin}/mcp`, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve(text));
    });
    outgoing.on('error', reject).end(body);
  });
}
