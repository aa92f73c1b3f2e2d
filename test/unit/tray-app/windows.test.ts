import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { styleTokens } from '#server/web/style/tokens';
import { mayOpen } from '#tray/main/app-windows';
import { isOurPage, pageFile, pageHeaders, pageUrl } from '#tray/model/windows';

const declarations = (css: string) =>
  [...css.matchAll(/^\s*(--[\w-]+): (.+);$/gm)].map(([, name, value]) => `${name}: ${value}`);

test('tray pages: their colours, sizes and spacing match the server’s pages', () => {
  const windows = readFileSync(
    join(import.meta.dirname, '../../../tray-app/pages/tokens.css'),
    'utf8',
  );
  const served = declarations(styleTokens).filter((line) => line !== '--target: 44px');

  expect(declarations(windows)).toEqual(served);
});

test.for([
  'latchkey://app/%2e%2e/preload.cjs',
  'latchkey://app/windows/add.html',
  'latchkey://elsewhere/add.html',
  'https://app/add.html',
  'file:///etc/passwd',
  'latchkey://app/add.html.exe',
  '',
])('tray pages: %s is not served', (url) => {
  expect(pageFile(url)).toBeUndefined();
});

test('tray pages: requests are accepted only from our page in a window’s main frame', () => {
  const url = pageUrl('key', 'sales');

  expect(isOurPage(url, true)).toBe(true);
  expect(isOurPage(url, false)).toBe(false);
  expect(isOurPage('latchkey://app/add.js', true)).toBe(false);
  expect(isOurPage(undefined, true)).toBe(false);
});

test('tray pages: the content security policy allows nothing external and nothing inline', () => {
  const policy = pageHeaders['Content-Security-Policy'];

  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
});

test.for([
  ['https://cloud.example.com/', true],
  ['http://127.0.0.1:8787/oauth/consent?x=1', true],
  ['http://[::1]:8787/', true],
  ['http://cloud.example.com/', false],
  ['https://user:pass@cloud.example.com/', false],
  ['file:///etc/passwd', false],
  ['javascript:alert(1)', false],
  ['ms-settings:', false],
  ['no url', false],
] as const)('tray pages: %s may be opened by the system: %s', ([address, may]) => {
  expect(mayOpen(address)).toBe(may);
});
