import { afterAll, beforeAll, expect, test } from 'vitest';
import { clonableRepository, followDocument, quickStarts } from '#support/followed-document';
import { keychainSession } from '#support/keychain-session';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const timeout = 300_000;
let folder: TemporaryFolder;
let repository: string;
beforeAll(async () => {
  folder = await temporaryFolder('clonable');
  repository = clonableRepository(folder.path);
});
afterAll(() => folder[Symbol.asyncDispose]());

await suite(['terminal', 'keychain'], 'documented commands, with a keychain', () => {
  test.for([['README.md', []] as const, ...quickStarts])(
    '%s',
    { timeout },
    async ([name, earlier]) => {
      await using session = await keychainSession();
      const { DBUS_SESSION_BUS_ADDRESS = '', XDG_RUNTIME_DIR = '' } = session.env;
      const bus = { DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR };

      // npx runs the commands of README.md, and in `documented-commands.full.test.ts` those of all documents.
      const isWithoutNpx = name !== 'README.md';
      const commands = await followDocument(name, { repository, earlier, bus, isWithoutNpx });

      expect(commands).toBeGreaterThan(2);
    },
  );
});
