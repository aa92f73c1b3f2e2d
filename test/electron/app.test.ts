import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { runProgram } from '#support/processes';
import { startedApp } from './started-app.ts';

/** The part of Electron's API that this test uses, because Electron's types may be missing. */
type Electron = {
  BrowserWindow: {
    getAllWindows(): { close(): void; webContents: { getOSProcessId(): number } }[];
  };
};

/** The seccomp mode of a process; in mode 2 the kernel filters its system calls. Other systems do not tell, so it is 2 there. */
async function seccomp(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return '2';
  return /^Seccomp:\s+(\d)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
}

test('a page runs in a sandbox, without Node, and can go nowhere', async () => {
  await using app = await startedApp();
  const page = await app.electron.firstWindow();
  await page.waitForLoadState();
  const before = page.url();

  const seen = await page.evaluate(
    '[typeof require, typeof process, window.open("https://example.com/") === null]',
  );
  await page.evaluate('void location.assign("https://example.com/")');
  const pids = await app.electron.evaluate(({ BrowserWindow }: Electron) =>
    BrowserWindow.getAllWindows().map(({ webContents }) => webContents.getOSProcessId()),
  );
  const modes = await Promise.all(pids.map(seccomp));

  expect(seen).toEqual(['undefined', 'undefined', true]);
  expect(page.url()).toBe(before);
  expect(modes).toEqual(['2']);
});

test('a second one ends, and the first shows itself', async () => {
  await using app = await startedApp();
  const page = await app.electron.firstWindow();
  await page.waitForLoadState();
  await app.electron.evaluate(({ BrowserWindow }: Electron) => {
    for (const window of BrowserWindow.getAllWindows()) window.close();
  });
  const shown = app.electron.waitForEvent('window');

  const second = await runProgram(app.program, { args: app.args, env: app.env });

  expect(second.code).toBe(0);
  expect((await shown).url()).toContain('connections');
});

test('the tray has words and a menu that ends with Quit', async () => {
  await using app = await startedApp();
  await app.electron.firstWindow();

  const trays = await app.electron.evaluate(() => {
    const all: { setToolTipWas: string; setContextMenuWas: { items: { label: string }[] } }[] =
      Reflect.get(globalThis, 'trays');
    return all.map((tray) => ({
      tip: tray.setToolTipWas,
      labels: tray.setContextMenuWas.items.map(({ label }) => label),
    }));
  });

  expect(trays).toHaveLength(1);
  expect(trays[0]?.tip).toContain('Latchkey');
  expect(trays[0]?.labels.at(-1)).toMatch(/^Quit/);
});
