import type { Command } from './command.ts';

/** `latchkey add NAME URL`. */
export const addCommand: Command = {
  name: 'add',
  operands: 'NAME URL',
  arity: [2, 2],
  summary: 'name a connection; its secrets go to the keychain',
  about: `Names an MCP server, so that latchkey NAME reaches it. Each name is an account of its own: two names
for one URL are signed in to separately. The server is asked before anything is kept.`,
  flags: {
    'api-key': { doc: 'asks for an API key, or reads it from standard input' },
    'client-id': { value: 'ID', doc: 'the OAuth client; none for a person who signs in' },
    'client-secret': { doc: 'asks for its secret, or reads it from standard input' },
    'private-key-file': { value: 'FILE', doc: 'a PEM file instead of a secret' },
    grant: { value: 'GRANT', doc: 'client_credentials or authorization_code' },
    scope: { value: 'SCOPE', repeated: true, doc: 'what to ask for; may be repeated' },
    issuer: { value: 'URL', doc: 'insist on this authorization server' },
    'redirect-port': { value: 'N', doc: 'the port that the client was registered with' },
    replace: { doc: 'also when the name is taken' },
    'no-check': { doc: 'keep it without asking the server' },
    json: { doc: 'one JSON object' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: [
    'latchkey add sales https://cloud.example.com/mcp/acme/sales',
    'latchkey add night https://cloud.example.com/mcp/acme/sales --api-key <key.txt',
  ],
  async run(input, machine) {
    const { add } = await import('./add.ts');
    await add(input, machine);
    return 0;
  },
};
