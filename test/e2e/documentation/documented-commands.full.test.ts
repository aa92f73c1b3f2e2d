import { expect, test } from 'vitest';
import { clonableRepository, followDocument, quickStarts } from '#support/followed-document';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

await suite('terminal', 'documented commands, without a keychain', () => {
  test.for([['README.md', []] as const, ...quickStarts])(
    '%s',
    { timeout: 300_000 },
    async ([name, earlier]) => {
      await using folder = await temporaryFolder('clonable');
      const repository = clonableRepository(folder.path);

      const commands = await followDocument(name, { repository, earlier });

      expect(commands).toBeGreaterThan(2);
    },
  );
});
