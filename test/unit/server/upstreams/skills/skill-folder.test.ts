import { EventEmitter } from 'node:events';
import fs, { mkdirSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SkillFolder } from '#server/upstreams/skills/skill-folder';
import { temporaryFolder } from '#support/temporary-folder';

/** The watcher that every folder gets. Unlike with a mocked module, modules that another test file has loaded get it too. */
function onlyWatcher(): EventEmitter {
  const nothing = () => watcher;
  const watcher = Object.assign(new EventEmitter(), {
    close: () => undefined,
    ref: nothing,
    unref: nothing,
  });
  vi.spyOn(fs, 'watch').mockReturnValue(watcher);
  syncBuiltinESMExports();
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  return watcher;
}

test('skill folder: a change while the folder is read is served soon, without another change', async () => {
  const watcher = onlyWatcher();
  await using temporary = await temporaryFolder('skills');
  const write = (name: string, description: string) => {
    mkdirSync(join(temporary.path, name), { recursive: true });
    const text = `---\nname: ${name}\ndescription: ${description}\n---\n`;
    writeFileSync(join(temporary.path, name, 'SKILL.md'), text);
  };
  mkdirSync(join(temporary.path, 'broken'));
  writeFileSync(join(temporary.path, 'broken', 'SKILL.md'), 'no front matter');
  let isOpen = false;
  const folder = await SkillFolder.open(temporary.path, {
    onError: (error) => expect.fail(String(error)),
    onProblem() {
      if (!isOpen) return;
      isOpen = false;
      // The files were just read, so that only the next read finds this change.
      write('late', 'Late.');
      watcher.emit('change');
    },
  });
  expect(watcher.listenerCount('change')).toBeGreaterThan(0);
  isOpen = true;
  write('early', 'Early.');
  watcher.emit('change');
  await expect
    .poll(() => folder.serves('skill://late/SKILL.md'), { timeout: 15_000, interval: 20 })
    .toBe(true);
  await folder.close();

  expect(folder.serves('skill://early/SKILL.md')).toBe(true);
});
