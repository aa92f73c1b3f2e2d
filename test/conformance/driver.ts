/**
 * The "client" that the conformance suite starts, `driver.ts legacy|modern URL`: it starts our proxy with
 * that URL, as an assistant of that era would, and makes the scenario's calls over standard input and
 * output, with the SDK of that era. A process is started for every scenario, so it loads only what the scenario needs.
 */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Stream } from 'node:stream';
import { inherited, proxyLauncher } from '#support/programs';
import { temporaryFolder } from '#support/temporary-folder';
import { scenarioCalls, type ToolCall } from './scenario-calls.ts';

type Context = {
  client_id?: string;
  client_secret?: string;
  private_key_pem?: string;
  idp_client_id?: string;
  idp_id_token?: string;
  idp_issuer?: string;
  idp_token_endpoint?: string;
  valid_jwt?: string;
  toolCalls?: ToolCall[];
};

const [era, url = ''] = process.argv.slice(2);
const scenario = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
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
  if (context.valid_jwt !== undefined) {
    const file = join(folder.path, 'projected-token');
    await writeFile(file, context.valid_jwt, { mode: 0o600 });
    return { assertion: `file:${file}` };
  }
  const { idp_issuer: issuer, idp_client_id: providerClientId } = context;
  if (issuer !== undefined)
    return { clientId, clientSecret, identityProvider: { issuer, clientId: providerClientId } };
  if (clientSecret === undefined) return {};
  const grant = scenario === 'auth/pre-registration' ? 'authorization_code' : 'client_credentials';
  return { clientId, clientSecret, grant };
}

// An assistant may start the proxy twice, to probe and to work, so tokens outlive the process.
const keyFile = join(folder.path, 'key');
await writeFile(keyFile, 'k'.repeat(44), { mode: 0o600 });

// The suite's provider has no sign-in page, so the person has already signed in there, in another session.
const { idp_issuer: issuer, idp_id_token: idToken, idp_token_endpoint: tokenEndpoint } = context;
if (issuer !== undefined && idToken !== undefined) {
  const clientId = context.idp_client_id ?? '';
  const { platform } = process;
  const [{ readIdToken }, { fileSecretStore }, { providerAccount }] = await Promise.all([
    import('#proxy/auth/provider-sign-in'),
    import('#proxy/keychain/file-secret-store'),
    import('#proxy/keychain/secret-accounts'),
  ]);
  const store = fileSecretStore({
    directory: join(folder.path, 'secrets'),
    keyFile,
    platform,
  });
  const now = Math.floor(Date.now() / 1000);
  const record = {
    server: { issuer, tokenEndpoint, tokenEndpointAuthMethods: ['none'], within: 'loopback' },
    ...readIdToken(idToken, { issuer, clientId }),
    idToken,
    obtainedAt: now,
  };
  await store.set(providerAccount({ issuer, clientId }), JSON.stringify(record));
}

const server = {
  command: process.execPath,
  args: [proxyLauncher, url, '--sign-in', 'always', '--secret-store', 'file'],
  env: {
    ...inherited,
    HOME: folder.path,
    BROWSER: join(import.meta.dirname, 'browser.mjs'),
    LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
    LATCHKEY_STATE_DIR: folder.path,
    LATCHKEY_OAUTH: JSON.stringify(await settings()),
    LATCHKEY_LOG_LEVEL: 'debug',
  },
  stderr: 'pipe' as const,
};
const listening = Promise.withResolvers<void>();

/** Passes on what the proxy logs, and notices when its listening stream is open. */
function readLog(stderr: Stream | null): void {
  let text = '';
  stderr?.on('data', (bytes: Buffer) => {
    process.stderr.write(bytes);
    text += String(bytes);
    if (text.includes('event stream open')) listening.resolve();
  });
}

// These scenarios fail every POST that lacks what the modern era requires, such as a legacy `initialize`. So a
// legacy assistant starts as at every start but the first, when the proxy already knows the server's era.
const modernAlone = ['request-metadata', 'http-standard-headers'];
if (modernAlone.includes(scenario) && era === 'legacy') {
  const { rememberedServer } = await import('#proxy/pipeline/detect-server');
  await rememberedServer(join(folder.path, 'servers'), url).remember('modern');
}

const capabilities = { elicitation: { form: { applyDefaults: true } } };

/** A person who accepts every question with the suggested values. */
const accept = () => ({ action: 'accept' as const, content: {} });

async function connected() {
  if (era === 'modern') {
    const [{ Client }, { StdioClientTransport }] = await Promise.all([
      import('@modelcontextprotocol/client'),
      import('@modelcontextprotocol/client/stdio'),
    ]);
    const versionNegotiation = { mode: 'auto' as const };
    const client = new Client(implementation, { capabilities, versionNegotiation });
    client.setRequestHandler('elicitation/create', accept);
    const transport = new StdioClientTransport(server);
    readLog(transport.stderr);
    await client.connect(transport);
    return client;
  }
  const [{ Client }, { StdioClientTransport }, { ElicitRequestSchema }] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/stdio.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ]);
  const client = new Client(implementation, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, accept);
  const transport = new StdioClientTransport(server);
  readLog(transport.stderr);
  await client.connect(transport);
  // The scenario takes any GET during its call for the one that resumes it.
  if (scenario === 'sse-retry') await listening.promise;
  return client;
}

try {
  const client = await connected();
  try {
    await scenarioCalls(scenario, client, context.toolCalls ?? []);
  } finally {
    await client.close();
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
