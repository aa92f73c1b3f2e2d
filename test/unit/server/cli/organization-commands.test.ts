import { describe, expect, test } from 'vitest';
import { findAgentByName } from '#server/db/agents';
import { findServer } from '#server/db/servers';
import { toolDefinition } from '#server/tools/definition';
import {
  administration,
  administrationWithServer,
  type Administration,
} from '#support/administration';
import { noteTools } from '#support/listed-tools';

test('organization create creates an organization once', async () => {
  await using admin = await administration();

  expect(await admin.json('organization', 'create', 'acme')).toEqual({
    id: expect.stringMatching(/^org_[0-9A-Za-z]{16}$/),
    name: 'acme',
  });
  await expect(admin.run('organization', 'create', 'acme')).rejects.toMatchObject({
    name: 'CommandError',
    message: 'an organization acme already exists',
  });
});

test.each(['Acme', 'a_b', '-a', 'a-', 'a'.repeat(64), 'a/b', ''])(
  'organization create refuses the name %j as wrong usage',
  async (name) => {
    await using admin = await administration();

    await expect(admin.run('organization', 'create', name)).rejects.toMatchObject({
      name: 'UsageError',
    });
  },
);

describe('server create', () => {
  test('creates a server with the given upstream', async () => {
    await using admin = await administration();
    await admin.run('organization', 'create', 'acme');
    await admin.run('agent', 'create', 'acme/hq');
    const agent = await findAgentByName(admin.stores.db, 'acme', 'hq');
    const url = 'https://mcp.example.com/mcp?tenant=1';

    expect(await admin.json('server', 'create', 'acme/web', '--http-url', url)).toEqual({
      id: expect.stringMatching(/^srv_[0-9A-Za-z]{16}$/),
      name: 'acme/web',
      upstream: 'http',
      endpoint: '/mcp/acme/web',
    });

    await expect(admin.run('server', 'create', 'none/web', '--demo')).rejects.toMatchObject({
      message: 'organization none not found',
      hint: 'existing organizations: acme; to create this one: latchkey-server organization create none',
    });
    const base = ['--base-url', 'https://cloud.example.com'];
    expect(await admin.json('server', 'create', 'acme/more', '--demo', ...base)).toMatchObject({
      endpoint: 'https://cloud.example.com/mcp/acme/more',
    });
    await admin.run('server', 'create', 'acme/local', '--agent', 'hq');
    await admin.run('server', 'create', 'acme/demo', '--demo');
    const upstreams = await Promise.all(
      ['web', 'local', 'demo'].map((name) => findServer(admin.stores.db, 'acme', name)),
    );

    expect(upstreams.map((server) => server?.target.upstream)).toEqual([
      { kind: 'http', url },
      { kind: 'agent', agentId: agent?.id },
      { kind: 'demo' },
    ]);
  });

  test.each([
    ['no upstream', 'UsageError', ['acme/web']],
    ['two upstreams', 'UsageError', ['acme/web', '--demo', '--http-url', 'https://x.example']],
    ['a URL that is none', 'UsageError', ['acme/web', '--http-url', 'mcp.example.com']],
    ['a URL of another scheme', 'UsageError', ['acme/web', '--http-url', 'file:///etc/passwd']],
    ['a URL with a user', 'UsageError', ['acme/web', '--http-url', 'https://a@x.example']],
    ['a URL with a password', 'UsageError', ['acme/web', '--http-url', 'https://:b@x.example']],
    ['a URL with a fragment', 'UsageError', ['acme/web', '--http-url', 'https://x.example/#a']],
    ['a name without organization', 'UsageError', ['web', '--demo']],
    ['a name of three parts', 'UsageError', ['acme/web/x', '--demo']],
    ['an agent that is not there', 'CommandError', ['acme/web', '--agent', 'hq']],
    ['an organization that is not there', 'CommandError', ['other/web', '--demo']],
    ['a name that is taken', 'CommandError', ['acme/taken', '--demo']],
  ])('refuses %s', async (_, name, argv) => {
    await using admin = await administration();
    await admin.run('organization', 'create', 'acme');
    await admin.run('server', 'create', 'acme/taken', '--demo');

    await expect(admin.run('server', 'create', ...argv)).rejects.toMatchObject({ name });
    expect(await findServer(admin.stores.db, 'acme', 'web')).toBeUndefined();
  });
});

describe('server hide-tools', () => {
  const argv = ['server', 'hide-tools', 'acme/web'];

  /** The server `acme/web`, which hides `a` and `b`. */
  async function hiding() {
    const admin = await administrationWithServer();
    const tools = ['--tool', 'a', '--tool', 'b', '--tool', 'a'];
    expect(await admin.json(...argv, ...tools)).toMatchObject({
      name: 'acme/web',
      hidden_tools: ['a', 'b'],
    });
    const hidden = async () =>
      (await findServer(admin.stores.db, 'acme', 'web'))?.target.hiddenTools ?? [];
    return { admin, hidden, [Symbol.asyncDispose]: () => admin[Symbol.asyncDispose]() };
  }

  async function list(admin: Administration, ...names: string[]) {
    const { target } = (await findServer(admin.stores.db, 'acme', 'web')) ?? {};
    const tools = names.flatMap((name) => toolDefinition({ name }) ?? []);
    await noteTools(admin.stores.db, target?.id ?? '', tools, 1);
  }

  test('hides exactly the given tools, each once, and --none shows all again', async () => {
    await using at = await hiding();

    expect(await at.hidden()).toEqual(['a', 'b']);
    expect(await at.admin.run(...argv, '--none')).toContain('hint: shown again: a, b');
    expect(await findServer(at.admin.stores.db, 'acme', 'web')).toMatchObject({
      target: { hiddenTools: [], changedTools: 'flag', newTools: 'offer' },
    });
  });

  test('without options, it shows the hidden tools and changes nothing', async () => {
    await using at = await hiding();

    expect(await at.admin.json(...argv)).toMatchObject({ hidden_tools: ['a', 'b'] });
    expect(await at.hidden()).toEqual(['a', 'b']);
  });

  test('names what it shows again, and what the server has not listed', async () => {
    await using at = await hiding();
    await list(at.admin, 'a', 'b', 'c');

    const lines = await at.admin.run(...argv, '--tool', 'a', '--tool', 'bb');

    expect(lines.slice(-2)).toEqual([
      'hint: shown again: b',
      'hint: acme/web has not listed bb so far: check the spelling',
    ]);
  });

  test('does not say that it shows what the server has not listed', async () => {
    await using at = await hiding();
    await list(at.admin, 'b', 'c');

    const lines = await at.admin.run(...argv, '--none');

    expect(lines.filter((line) => line.startsWith('hint:'))).toEqual(['hint: shown again: b']);
  });

  test('refuses --tool together with --none', async () => {
    await using at = await hiding();

    await expect(at.admin.run(...argv, '--tool', 'a', '--none')).rejects.toThrow('not both');
    expect(await at.hidden()).toEqual(['a', 'b']);
  });

  test.each([
    ['key create', ['key', 'create', 'acme/web', '--name', 'CI', '--tools', 'a,bb']],
    ['collection create', ['collection', 'create', 'acme/desk', '--member', 'web=a,bb']],
    ['collection set-member', ['collection', 'set-member', 'acme/both', 'web', '--tools', 'a,bb']],
    [
      'tool restrict --dry-run',
      ['tool', 'restrict', 'acme/web', 'bb', '--group', 'F', '--dry-run'],
    ],
  ])('%s names what the server has not listed, too', async (_, words) => {
    await using at = await hiding();
    await at.admin.run('group', 'create', 'acme', 'F');
    await at.admin.run('collection', 'create', 'acme/both', '--member', 'web');
    const unlisted = expect.stringMatching(/^hint: .* has not listed bb so far/);

    await list(at.admin, 'a');

    expect(await at.admin.run(...words)).toContainEqual(unlisted);
  });

  test('a key is created without a hint if the list of the server is not known', async () => {
    await using admin = await administrationWithServer();

    const lines = await admin.run('key', 'create', 'acme/web', '--name', 'CI', '--tools', 'a,bb');

    expect(lines.join('\n')).not.toContain('has not listed');
  });
});
