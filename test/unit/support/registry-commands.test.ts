import { expect, test } from 'vitest';

import { registryCommands } from '#support/registry-commands';

test.each([
  'npx latchkey demo',
  'npx -y latchkey https://cloud.example.com/mcp/acme/sales',
  'npx --yes --prefer-offline latchkey',
  'npx latchkey@latest',
  'npx -p latchkey latchkey',
  'npx latchkey-server start',
  '`npx latchkey`: starts it',
  'npm install --global latchkey',
  'npm i -g latchkey-server',
  'npm install latchkey@0.1.0',
  'npm exec -- latchkey',
  'pnpm dlx latchkey',
  'bunx latchkey',
  '{ "command": "npx", "args": ["-y", "latchkey", "https://cloud.example.com"] }',
  '{\n  &quot;command&quot;: &quot;npx&quot;,\n  &quot;args&quot;: [\n    &quot;-y&quot;,\n    &quot;latchkey&quot;',
  `const entry = { command: 'npx', args: ['-y', 'latchkey', url] };`,
  `return existsSync(file) ? [node, file] : ['npx', '-y', 'latchkey'];`,
  '<code>npx <b>latchkey</b></code>',
])("registry commands: detected in '%s'", (text) => {
  expect(registryCommands(text)).toHaveLength(1);
});

test.each([
  'npx --no latchkey demo',
  'npx --no latchkey-server start --demo',
  'npx -y "https://cloud.example.com/download/latchkey-0.1.0.tgz?v=0123456789abcdef" agent login',
  'npm install --global "https://cloud.example.com/download/latchkey-0.1.0.tgz"',
  '{ "command": "npx", "args": ["-y", "https://cloud.example.com/download/latchkey-0.1.0.tgz", "https://cloud.example.com"] }',
  'npm install --global ./latchkey-0.1.0.tgz',
  'npx mcp-remote https://cloud.example.com/mcp/acme/latchkey',
  'npm run build builds latchkey',
  'latchkey install cursor sales',
])("registry commands: none is detected in '%s'", (text) => {
  expect(registryCommands(text)).toEqual([]);
});
