import { chmod, cp, mkdir, readFile, readdir, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { keychainSession } from '#support/keychain-session';
import { latchkeyHome } from '#support/latchkey-home';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { builtPackages, install } from '#support/packages';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const apiKey = `mcp_${'k'.repeat(36)}`;

/** The package in the folder of one version of Node, as a version manager keeps it. */
async function versionManager(folder: string) {
  const { proxy } = await builtPackages(join(folder, 'packages'));
  const version = join(folder, 'versions', 'v24.1.0');
  const node = join(version, 'bin', 'node');
  await mkdir(dirname(node), { recursive: true });
  await cp(process.execPath, node, { dereference: true });
  await install(join(version, 'lib'), [proxy]);
  return { version, node, script: join(version, 'lib/node_modules/latchkey/bin/latchkey.js') };
}

await suite(['registry', 'keychain'], 'an entry that the npm package installed', () => {
  test(
    'it starts after an update of Node that removes the old version, package and all',
    { timeout: 300_000 },
    async () => {
      await using keyring = await keychainSession();
      await using server = await oauthFront(legacyMcp().handle);
      await using folder = await temporaryFolder('versions');
      const { version, node, script } = await versionManager(folder.path);
      await using home = await latchkeyHome(keyring.env, [node, script]);
      await home.json(['add', 'sales', server.url, '--api-key'], apiKey);
      const installed = await home.json(['install', 'cursor', 'sales']);
      const file = (await home.read('.cursor/mcp.json')) ?? '';
      const entry = JSON.parse(file).mcpServers.sales;

      await rename(version, `${version}.removed`);
      await using proxy = home.start({
        ...entry,
        env: { ...entry.env, PATH: `/nonexistent:${dirname(process.execPath)}:/usr/bin:/bin` },
      });
      const { result } = await proxy.handshake();
      proxy.hangUp();

      expect(installed).toMatchObject({ changed: true });
      expect(entry.command).toBe(join(home.path, '.local/share/latchkey/bin/latchkey'));
      expect(entry.args).toEqual(['connect', 'sales']);
      expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
      expect(await proxy.ended).toBe(0);
      const { mode } = await stat(join(home.path, '.local/share/latchkey'));
      expect(mode & 0o022).toBe(0);
      expect(await readFile(entry.command, 'utf8')).toContain(`node='${node}'`);
    },
  );

  test(
    'its copy of the package is made once, and removed by the last uninstall',
    { timeout: 300_000 },
    async () => {
      await using keyring = await keychainSession();
      await using server = await oauthFront(legacyMcp().handle);
      await using folder = await temporaryFolder('versions');
      const { node, script } = await versionManager(folder.path);
      await using home = await latchkeyHome(keyring.env, [node, script]);
      const copies = async () => readdir(join(home.path, '.local/share/latchkey/app'));
      await home.json(['add', 'sales', server.url, '--api-key'], apiKey);
      await home.json(['install', 'cursor', 'sales']);
      await home.json(['install', 'gemini', 'sales']);
      const once = await copies();
      await home.json(['uninstall', 'cursor', 'sales']);
      const stillUsed = await copies();
      await home.json(['uninstall', 'gemini', 'sales']);

      expect(once).toHaveLength(1);
      expect(stillUsed).toEqual(once);
      expect(await readdir(join(home.path, '.local/share/latchkey'))).toEqual([]);
    },
  );

  test(
    'it is refused where others can write to the folder of the copies',
    { timeout: 300_000 },
    async () => {
      await using keyring = await keychainSession();
      await using server = await oauthFront(legacyMcp().handle);
      await using folder = await temporaryFolder('versions');
      const { node, script } = await versionManager(folder.path);
      await using home = await latchkeyHome(keyring.env, [node, script]);
      await home.json(['add', 'sales', server.url, '--api-key'], apiKey);
      await home.write('.local/share/latchkey/note', '');
      await chmod(join(home.path, '.local/share/latchkey'), 0o777);

      const refused = await home.run(['install', 'cursor', 'sales']);

      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain('is not a folder that only you can write to');
      expect(await home.read('.cursor/mcp.json')).toBeUndefined();
    },
  );
});
