import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { clientsOf } from '#support/made-records';
import { administrationWithServer } from '#support/administration';
import { temporaryFolder } from '#support/temporary-folder';

const create = ['client', 'create', 'acme/web', '--name', 'Claude', '--scope', 'mcp:tools:read'];

describe('client create refuses, and creates nothing for,', () => {
  test.each([
    ['an unknown scope', 'UsageError', [...create, '--scope', 'mcp:everything']],
    [
      'two scopes in one value',
      'UsageError',
      [...create, '--scope', 'mcp:tools:read,mcp:tools:execute'],
    ],
    ['no scope', 'UsageError', create.slice(0, 5)],
    ['no name', 'UsageError', [...create.slice(0, 3), ...create.slice(5)]],
    [
      'a dangerous redirect URI',
      'UsageError',
      [...create, '--redirect-uri', 'javascript:alert(1)'],
    ],
    [
      'a redirect URI whose host no policy can name',
      'UsageError',
      [...create, '--redirect-uri', 'https://e.test,evil/cb'],
    ],
    ['a server that is not there', 'CommandError', create.with(2, 'acme/other')],
    ['an organization that is not there', 'CommandError', create.with(2, 'other/web')],
    [
      'a key file that is not there',
      'CommandError',
      [...create, '--jwks', '/nonexistent/jwks.json'],
    ],
  ])('%s', async (_, name, argv) => {
    await using admin = await administrationWithServer();

    await expect(admin.run(...argv)).rejects.toMatchObject({ name });
    expect(await clientsOf(admin.stores.db, 'acme')).toEqual([]);
  });
});

test('client create stores a JWK set, and refuses a file without one', async () => {
  await using admin = await administrationWithServer();
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'jwks.json');
  const jwks = '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}';
  await writeFile(file, jwks);
  await admin.run(...create, '--jwks', file);

  expect(await clientsOf(admin.stores.db, 'acme')).toMatchObject([{ jwks, secretHint: undefined }]);

  await expect(admin.run(...create, '--jwks', folder.path)).rejects.toThrow(
    `--jwks ${folder.path} is a folder, not a file`,
  );
  for (const wrong of ['', '[]', '{"keys":[]}', '{"keys":[{}]}', 'x']) {
    await writeFile(file, wrong);
    await expect(admin.run(...create, '--jwks', file)).rejects.toMatchObject({
      name: 'UsageError',
    });
  }
});
