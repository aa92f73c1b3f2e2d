import { expect, test } from 'vitest';
import { browserCommand, type Desktop } from '#proxy/auth/open-browser';

const url = new URL('https://as.example.com/consent?a=1&b=$(x)');
const { href } = url;

test.each<[string, Desktop, ReturnType<typeof browserCommand>]>([
  ['macOS', { platform: 'darwin', env: {} }, { command: '/usr/bin/open', args: [href] }],
  [
    'Windows',
    { platform: 'win32', env: { SystemRoot: 'C:\\W' } },
    { command: 'C:\\W\\System32\\rundll32.exe', args: ['url.dll,FileProtocolHandler', href] },
  ],
  [
    'a Linux desktop',
    { platform: 'linux', env: { DISPLAY: ':0' } },
    { command: 'xdg-open', args: [href] },
  ],
  ['a Linux without a screen', { platform: 'linux', env: {} }, undefined],
  [
    'SSH with a forwarded screen',
    { platform: 'linux', env: { DISPLAY: ':10', SSH_CONNECTION: 'x' } },
    undefined,
  ],
  ['SSH to a Mac', { platform: 'darwin', env: { SSH_TTY: '/dev/ttys001' } }, undefined],
  [
    'BROWSER, also over SSH',
    { platform: 'linux', env: { BROWSER: '/opt/my browser', SSH_TTY: 'x' } },
    { command: '/opt/my browser', args: [href] },
  ],
  [
    'BROWSER with a place for the URL',
    { platform: 'linux', env: { BROWSER: 'firefox --new-tab %s:chromium' } },
    { command: 'firefox', args: ['--new-tab', href] },
  ],
  ['BROWSER that would run the URL', { platform: 'linux', env: { BROWSER: '%s' } }, undefined],
])('browser: the command that opens a page: %s', (_, host, command) => {
  expect(browserCommand(url, host)).toEqual(command);
});

test.each(['file:///etc/passwd', 'javascript:alert(1)', 'vscode://x', 'data:text/html,x'])(
  'browser: %s is never opened',
  (address) => {
    const host: Desktop = { platform: 'darwin', env: { BROWSER: 'x' } };

    expect(browserCommand(new URL(address), host)).toBeUndefined();
  },
);
