/** The MCP server behind every bridge to stdio: as little work as Node allows. Plain JavaScript, as it starts faster. */
const called = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(200) }] });

let rest = '';
process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = (rest + text).split('\n');
  rest = lines.pop() ?? '';
  let out = '';
  for (const line of lines) out += answer(JSON.parse(line));
  if (out !== '') process.stdout.write(out);
});
process.stdin.on('end', () => process.exit(0));

function answer({ id, method, params }) {
  if (id === undefined) return '';
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)}`;
  if (method === 'tools/call') return `${head},"result":${called}}\n`;
  if (method === 'initialize') return `${head},"result":${JSON.stringify(greeting(params))}}\n`;
  return `${head},"error":{"code":-32601,"message":"method not found"}}\n`;
}

function greeting({ protocolVersion }) {
  return {
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'target', version: '1' },
  };
}
