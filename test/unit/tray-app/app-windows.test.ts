import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { appWindows } from '#tray/main/app-windows';
import type { WindowName } from '#tray/model/windows';

const overview = { known: true, connections: [], signIns: [], startAtLogin: false };

/** Windows that record what is done with them. */
function desktop() {
  const did: string[] = [];
  const made: EventEmitter[] = [];
  const windows = appWindows((name: WindowName) => {
    let at = '';
    did.push(`make ${name}`);
    const window = Object.assign(new EventEmitter(), {
      webContents: { getURL: () => at, send: () => void did.push(`send ${name}`) },
      async loadURL(url: string) {
        at = url;
        did.push(`load ${url.replace('latchkey://app/', '')}`);
      },
      show: () => void did.push(`show ${name}`),
      focus: () => void did.push(`focus ${name}`),
    });
    made.push(window);
    return window;
  });
  const since = () => did.splice(0);
  return { windows, made, since };
}

test('window: shown once its page has content, and brought to the front when it is opened again', () => {
  const { windows, made, since } = desktop();
  windows.open('doctor');
  const first = since();
  made[0]?.emit('ready-to-show');
  const ready = since();
  windows.open('doctor');

  expect(first).toEqual(['make doctor', 'load doctor.html']);
  expect(ready).toEqual(['show doctor']);
  expect(since()).toEqual(['show doctor', 'focus doctor']);
});

test('key window: it switches from one connection to another', () => {
  const { windows, since } = desktop();
  windows.open('key', 'sales');
  since();
  windows.open('key', 'wiki');

  expect(since()).toEqual(['load key.html?name=wiki', 'show key', 'focus key']);
});

test('window: an open one receives changes, and a closed one is created again', () => {
  const { windows, made, since } = desktop();
  windows.open('doctor');
  windows.open('add');
  made[0]?.emit('closed');
  since();
  windows.send(overview);
  const sent = since();
  windows.open('doctor');

  expect(sent).toEqual(['send add']);
  expect(since()).toEqual(['make doctor', 'load doctor.html']);
});
