/**
 * The "client" that the conformance suite starts, with the server's URL as last argument: it starts our
 * proxy with that URL, as an assistant would, and makes the scenario's calls over standard input and
 * output, with the SDK of the era under test.
 */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client as ModernClient } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernTransport } from '@modelcontextprotocol/client/stdio';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { launcher } from '#support/proxy-process';
import { temporaryFolder } from '#support/temporary-folder';

type Context = { client_id?: string; client_secret?: string; private_key_pem?: string };

const url = process.argv.at(-1) ?? '';
const scenario = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
const revision = process.env['MCP_CONFORMANCE_PROTOCOL_VERSION'] ?? '2025-11-25';
const context: Context = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const implementation = { name: 'latchkey-conformance', version: '1.0.0' };

await using folder = await temporaryFolder('conformance');

/** What a person would have configured for this scenario. */
async function settings(): Promise<Record<string, unknown>> {
  const { client_id: clientId, client_secret: clientSecret, private_key_pem: pem } = context;
  if (pem !== undefined) {
    const privateKeyFile = join(folder.path, 'key.pem');
    await writeFile(privateKeyFile, pem);
    await chmod(privateKeyFile, 0o600);
    return { clientId, privateKeyFile };
  }
  if (scenario === 'auth/basic-cimd')
    return { clientMetadataUrl: 'https://conformance-test.local/client-metadata.json' };
  if (clientSecret === undefined) return {};
  const grant = scenario === 'auth/pre-registration' ? 'authorization_code' : 'client_credentials';
  return { clientId, clientSecret, grant };
}

// An assistant may start the proxy twice, to probe and to work, so tokens outlive the process.
const keyFile = join(folder.path, 'key');
await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });

const server = {
  command: process.execPath,
  args: [launcher, url, '--sign-in', 'always', '--secret-store', 'file'],
  env: {
    PATH: process.env['PATH'] ?? '',
    HOME: folder.path,
    BROWSER: join(import.meta.dirname, 'browser.mjs'),
    LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
    LATCHKEY_STATE_DIR: folder.path,
    LATCHKEY_OAUTH: JSON.stringify(await settings()),
    LATCHKEY_LOG_LEVEL: 'info',
  },
};

async function connected() {
  if (revision >= '2026-07-28') {
    const client = new ModernClient(implementation, {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
    });
    await client.connect(new ModernTransport(server));
    return client;
  }
  const client = new LegacyClient(implementation);
  await client.connect(new LegacyTransport(server));
  return client;
}

try {
  const client = await connected();
  try {
    await client.listTools();
    await client.callTool({ name: 'test-tool', arguments: {} });
  } finally {
    await client.close();
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
