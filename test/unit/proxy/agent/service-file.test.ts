import { expect, test } from 'vitest';
import { serviceFile } from '#proxy/agent/service-file';

const plan = {
  home: '/home/dana',
  command: ['/opt/my node/node', '/opt/latchkey.js', 'agent', '--config', '/etc/100%$HOME"\\'],
  base: 'https://cloud.example.com',
};

test('agent service: a systemd system unit has its own user, and the key as a credential', () => {
  const { path, text, newKey } = serviceFile({
    ...plan,
    kind: 'systemd',
    user: false,
    keyFile: '/etc/key',
  });

  expect(path).toBe('/etc/systemd/system/latchkey-agent.service');
  expect(text).toContain('LoadCredential=agent-key:/etc/key\n');
  expect(text).toContain('\nRefreshOnReload=credentials\n');
  expect(newKey).toContain('/etc/key takes effect after systemctl restart latchkey-agent');
  expect(text).toContain(
    String.raw`ExecStart="/opt/my node/node" /opt/latchkey.js agent --config "/etc/100%%$$HOME\"\\" --key-file "%d/agent-key"`,
  );
  for (const line of ['NoNewPrivileges=yes', 'ProtectSystem=strict', 'DynamicUser=yes'])
    expect(text).toContain(`\n${line}\n`);
});

test('agent service: a systemd user unit has no option that only system units support', () => {
  const { path, text, newKey } = serviceFile({ ...plan, kind: 'systemd', user: true });

  expect(path).toBe('/home/dana/.config/systemd/user/latchkey-agent.service');
  expect(text).toContain('NoNewPrivileges=yes');
  expect(text).not.toMatch(/DynamicUser|ProtectSystem|LoadCredential|RefreshOnReload/);
  expect(newKey).toBeUndefined();
});

test('agent service: a launchd file contains each argument separately, escaped', () => {
  const { path, text } = serviceFile({
    ...plan,
    command: ['/a & b', '<c>'],
    kind: 'launchd',
    user: true,
  });

  expect(path).toBe('/home/dana/Library/LaunchAgents/latchkey.agent.plist');
  expect(text).toContain('<string>/a &amp; b</string>\n    <string>&lt;c&gt;</string>');
});

test('agent service: a launchd file names the account only if there is one', () => {
  const system = {
    ...plan,
    kind: 'launchd',
    user: false,
    keyFile: "/etc/dana's/agent.key",
  } as const;

  const named = serviceFile({ ...system, runAs: '_latchkey' });
  const ofRoot = serviceFile(system);

  expect(named.text).toContain('<key>UserName</key>\n  <string>_latchkey</string>\n');
  expect(named.next[0]).toBe(String.raw`chown _latchkey '/etc/dana'\''s/agent.key'`);
  expect(ofRoot.text).not.toContain('UserName');
  expect(ofRoot.next).toEqual([
    'launchctl bootstrap system /Library/LaunchDaemons/latchkey.agent.plist',
  ]);
});
