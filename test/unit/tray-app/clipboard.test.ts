import { expect, test } from 'vitest';
import { clipboardGuard } from '#tray/main/clipboard';

function clipboard() {
  let text = '';
  const due: { seconds: number; act: () => void; off: boolean }[] = [];
  const guard = clipboardGuard({
    clipboard: {
      writeText: (to) => void (text = to),
      readText: async () => text,
      clear: () => void (text = ''),
    },
    after(seconds, act) {
      const timer = { seconds, act, off: false };
      due.push(timer);
      return () => void (timer.off = true);
    },
  });
  return {
    guard,
    text: () => text,
    copy: (to: string) => void (text = to),
    pass: async () => {
      for (const { act, off } of due.splice(0)) if (!off) act();
      await new Promise((resolve) => setImmediate(resolve));
    },
    seconds: () => due.map((timer) => timer.seconds),
  };
}

test('clipboard: a secret is removed after 60 seconds', async () => {
  const { guard, text, pass, seconds } = clipboard();
  await guard.copySecret('private');
  const asked = seconds();
  const before = text();
  await pass();

  expect(asked).toEqual([60]);
  expect(before).toBe('private');
  expect(text()).toBe('');
});

test('clipboard: text that the user copied since stays', async () => {
  const { guard, text, copy, pass } = clipboard();
  await guard.copySecret('private');
  copy('a shopping list');
  await pass();
  await guard.clearNow();

  expect(text()).toBe('a shopping list');
});

test('clipboard: a second secret starts its own 60 seconds, and quitting the app removes it', async () => {
  const { guard, text, pass } = clipboard();
  await guard.copySecret('first');
  await guard.copySecret('second');
  await guard.clearNow();
  const after = text();
  await pass();

  expect(after).toBe('');
});
