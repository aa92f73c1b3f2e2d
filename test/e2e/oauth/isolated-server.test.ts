import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { auth } from '@modelcontextprotocol/sdk/client/auth.js';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { allow } from '#support/consenting-person';
import { SdkAssistant } from '#support/sdk-assistant';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const person = { email: 'dana@example.com', password: 'correct horse battery staple' };
const provided = 'https://assistant.example/client.json';
let folder: TemporaryFolder;
let server: ServerProcess;
let serverUrl: string;

beforeAll(async () => {
  folder = await temporaryFolder('documents');
  const file = join(folder.path, 'client.json');
  const { clientMetadata } = new SdkAssistant();
  await writeFile(file, JSON.stringify({ client_id: provided, ...clientMetadata }));
  server = await serverProcess({
    args: [
      '--demo',
      '--no-client-metadata-documents',
      '--dynamic-registration',
      '--client-metadata-document',
      file,
    ],
  });
  serverUrl = `${server.base}/mcp/demo/library`;
  const add = ['user', 'create', person.email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${person.password}\n`);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

async function signedIn(assistant: SdkAssistant): Promise<string> {
  await auth(assistant, { serverUrl });
  const callback = await allow(assistant.sentTo ?? new URL('none:'), person);
  const authorizationCode = callback.searchParams.get('code') ?? '';
  return auth(assistant, { serverUrl, authorizationCode });
}

test('server without the internet: an assistant with a metadata document registers instead, and signs in', async () => {
  const assistant = new SdkAssistant({ clientMetadataUrl: 'https://unreachable.invalid/c.json' });

  const outcome = await signedIn(assistant);

  expect(outcome).toBe('AUTHORIZED');
  expect(assistant.sentTo?.searchParams.get('client_id')).toMatch(/^client_/);
});

test('server without the internet: an assistant whose document the operator provided signs in with it', async () => {
  const assistant = new SdkAssistant();
  assistant.saveClientInformation({ client_id: provided });

  const outcome = await signedIn(assistant);

  expect(outcome).toBe('AUTHORIZED');
  expect(assistant.tokens()?.refresh_token).toMatch(/^rt_/);
});
