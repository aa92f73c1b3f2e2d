import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';

import { assistantFileNames } from '#server/deployment/assistant-files';
import { callingPerson } from '#support/calling-person';
import { serverProcess } from '#support/server-process';

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());
const server = stack.use(await serverProcess());
const { base, command } = server;
const json = async (...words: string[]) => JSON.parse(await command([...words, '--json']));

// A server that knows every kind of secret, beside one that is not installed.
const upstream = ['--http-url', 'https://192.0.2.1/hook-of-upstream'];
await command(['organization', 'create', 'acme']);
await command(['organization', 'create', 'other']);
await command(['server', 'create', 'acme/sales', ...upstream]);
await command(['server', 'create', 'acme/payroll', '--demo']);
await command(['server', 'create', 'other/theirs', '--demo']);
await command(['organization', 'create', 'empty']);
await command(['group', 'create', 'acme', 'finance']);
await command(['deployment', 'set', 'acme/sales', '--everyone']);
await command(['deployment', 'set', 'acme/payroll', '--group', 'finance']);
await command(['deployment', 'set', 'other/theirs', '--everyone']);
const { key } = z
  .object({ key: z.string() })
  .parse(await json('key', 'create', 'acme/sales', '--name', 'k'));
const client = z
  .object({ client_id: z.string(), client_secret: z.string() })
  .parse(await json('client', 'create', 'acme/sales', '--name', 'c', '--scope', 'mcp:tools:read'));
const inAcme = (role: 'admin' | 'member') => ({ organization: 'acme', role }) as const;
const admin = await callingPerson(server, 'admin@acme.example', inAcme('admin'));
const emptyAdmin = await callingPerson(server, 'admin@empty.example', {
  organization: 'empty',
  role: 'admin',
});
const member = await callingPerson(server, 'member@acme.example', inAcme('member'));

test.each(assistantFileNames)(
  '216: deployment: the file %s contains no secret and nothing closed',
  async (name) => {
    const fromCommand = await command(['deployment', 'file', name, 'acme', '--base-url', base]);
    const words = ['deployment', 'file', name, 'acme', '--base-url', base];
    const forGroup = await command([...words, '--group', 'finance', '--connection', 'latchkey']);
    const { text: whole } = z.object({ text: z.string() }).parse(await json(...words));
    const texts = [fromCommand, forGroup];

    for (const text of texts) {
      expect(text).not.toMatch(/(?:mcp|secret|pat|pk_live|scim|whsec)_[\w-]{10}/);
      expect(text).not.toContain(key);
      expect(text).not.toContain(client.client_secret);
      expect(text).not.toContain(client.client_id);
      expect(text).not.toMatch(
        /192\.0\.2|hook-of-upstream|theirs|authorization|bearer|headers|env\b/i,
      );
    }
    expect(fromCommand).not.toContain('payroll');
    // Byte for byte, line ends included: people redirect it into the file.
    expect(fromCommand).toBe(whole);
  },
);

test('216: deployment: only administrators get files, the same as from the command', async () => {
  const path = '/acme/deployment/files/claude-code';
  const given = await admin.ask(path);
  const { text } = z.object({ text: z.string() }).parse(await given.json());
  const anyone = await fetch(`${base}/api/admin/organizations${path}`);

  expect(text).toBe(
    await command(['deployment', 'file', 'claude-code', 'acme', '--base-url', base]),
  );
  expect((await member.ask(path)).status).toBe(403);
  expect(anyone.status).toBe(401);
  expect((await admin.ask('/acme/deployment/files/passwd')).status).toBe(422);
  expect((await admin.ask('/other/deployment/files/claude-code')).status).toBe(404);
});

const isPolicy = (name: string) => name.startsWith('vscode-policy');

test.each(assistantFileNames.filter((name) => !isPolicy(name)))(
  'deployment: without servers, the file %s is refused, with what to do',
  async (name) => {
    const answer = await emptyAdmin.ask(`/empty/deployment/files/${name}`);

    expect(answer.status).toBe(409);
    expect(await answer.text()).toContain('no server is installed by default for this selection');
    await expect(
      command(['deployment', 'file', name, 'empty', '--base-url', base]),
    ).rejects.toThrow('deployment set empty/SERVER --everyone');
  },
);

test.each(assistantFileNames.filter(isPolicy))(
  'deployment: the policy %s is made without servers, too',
  async (name) => {
    const answer = await emptyAdmin.ask(`/empty/deployment/files/${name}`);

    expect(answer.status).toBe(200);
    expect(await command(['deployment', 'file', name, 'empty', '--base-url', base])).toContain(
      `${base}/registry/empty`,
    );
  },
);
