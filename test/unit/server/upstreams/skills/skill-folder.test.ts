import { EventEmitter } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { SkillFolder } from '#server/upstreams/skills/skill-folder';
import { temporaryFolder } from '#support/temporary-folder';

const watcher = vi.hoisted(() => ({ current: undefined as EventEmitter | undefined }));
vi.mock('node:fs', async (original) => ({
  ...(await original<object>()),
  watch: () => (watcher.current = Object.assign(new EventEmitter(), { close: () => undefined })),
}));

test('skill folder: a change while the folder is read is served soon, without another change', async () => {
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
      // The files were just read: what comes now belongs to the next time.
      write('late', 'Late.');
      watcher.current?.emit('change');
    },
  });
  isOpen = true;
  write('early', 'Early.');
  watcher.current?.emit('change');
  await expect
    .poll(() => folder.serves('skill://late/SKILL.md'), { timeout: 15_000, interval: 20 })
    .toBe(true);
  await folder.close();

  expect(folder.serves('skill://early/SKILL.md')).toBe(true);
});
