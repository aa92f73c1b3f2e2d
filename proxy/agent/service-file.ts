import { shellWord } from '#shell-word';

export type ServicePlan = {
  kind: 'systemd' | 'launchd';
  /** Whether it is a user service rather than a system service. */
  user: boolean;
  home: string;
  /** The command line, beginning with the program. */
  command: readonly string[];
  /** The key file. systemd passes it to a system service as a credential. */
  keyFile?: string;
  /** The account that a system service of launchd runs under; root by default. systemd creates an account for the service. */
  runAs?: string;
  base: string;
};

const serviceName = 'latchkey-agent';
const launchdLabel = 'latchkey.agent';
/** Identifies the files that we wrote. */
export const serviceMark = 'Made by latchkey agent install';

/** The file that describes the service to systemd or launchd. systemd.service(5), launchd.plist(5) */
export function serviceFile(plan: ServicePlan): {
  path: string;
  text: string;
  /** The commands to run next. */
  next: string[];
  /** How to replace the key, if that takes more than a new key file. */
  newKey?: string;
} {
  return plan.kind === 'systemd' ? systemd(plan) : launchd(plan);
}

function systemd({ user, home, command, keyFile, base }: ServicePlan) {
  const words = command.map(unitWord);
  const credential = !user && keyFile !== undefined;
  // Only the service can read a credential, even if another account owns the key file.
  if (credential) words.push('--key-file', '"%d/agent-key"');
  const text = `# ${serviceMark}. Make changes in a drop-in: systemctl ${user ? '--user ' : ''}edit ${serviceName}
[Unit]
Description=Latchkey agent for ${base.replaceAll('%', '%%')}
${user ? '' : 'Wants=network-online.target\nAfter=network-online.target\n'}
[Service]
Type=exec
ExecStart=${words.join(' ')}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=5
# The agent ends its children. systemd kills those that remain.
KillMode=mixed
TimeoutStopSec=20
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
${user ? '' : systemHardening(credential ? keyFile : undefined)}
[Install]
WantedBy=${user ? 'default.target' : 'multi-user.target'}
`;
  const manager = user ? 'systemctl --user' : 'systemctl';
  return {
    path: user
      ? `${home}/.config/systemd/user/${serviceName}.service`
      : `/etc/systemd/system/${serviceName}.service`,
    text,
    next: [
      `${manager} daemon-reload`,
      `${manager} enable --now ${serviceName}`,
      ...(user ? ['loginctl enable-linger   (to run while you are signed out)'] : []),
    ],
    ...(credential && {
      newKey: `a new key in ${keyFile} takes effect after ${manager} restart ${serviceName}; from systemd 260 on, a reload suffices and interrupts no call`,
    }),
  };
}

/** Options that only a system unit can use. MemoryDenyWriteExecute is missing because Node compiles code at run time. */
function systemHardening(keyFile: string | undefined): string {
  const credential = `LoadCredential=agent-key:${keyFile?.replaceAll('%', '%%')}
# From systemd 260 on, systemctl reload reads the key again. Older versions need a restart.
RefreshOnReload=credentials
`;
  return `${keyFile === undefined ? '' : credential}# A user of its own, with a home folder for children such as npx.
DynamicUser=yes
StateDirectory=${serviceName}
Environment=HOME=%S/${serviceName}
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
`;
}

/** A word of ExecStart=, with `%`, `$`, quotes and backslashes escaped. systemd.service(5) */
function unitWord(word: string): string {
  const escaped = word
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('%', '%%')
    .replaceAll('$', '$$$$');
  return /^[\w@./:=+-]+$/.test(word) ? escaped : `"${escaped}"`;
}

function launchd({ user, home, command, keyFile, runAs }: ServicePlan) {
  const words = keyFile === undefined || user ? command : [...command, '--key-file', keyFile];
  const strings = words.map((word) => `    <string>${xml(word)}</string>`);
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${serviceMark}. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${launchdLabel}</string>
${runAs === undefined ? '' : `  <key>UserName</key>\n  <string>${xml(runAs)}</string>\n`}  <key>ProgramArguments</key>
  <array>
${strings.join('\n')}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <true/>
  <key>ThrottleInterval</key>
  <integer>5</integer>
  <key>ExitTimeOut</key>
  <integer>20</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>ProcessType</key>
  <string>Background</string>
  <key>StandardOutPath</key>
  <string>${xml(user ? `${home}/Library/Logs/${serviceName}.log` : `/var/log/${serviceName}.log`)}</string>
  <key>StandardErrorPath</key>
  <string>${xml(user ? `${home}/Library/Logs/${serviceName}.log` : `/var/log/${serviceName}.log`)}</string>
</dict>
</plist>
`;
  const folder = user ? `${home}/Library/LaunchAgents` : '/Library/LaunchDaemons';
  const path = `${folder}/${launchdLabel}.plist`;
  return {
    path,
    text,
    next: [
      // Only its owner can read the key file, so the account of the service has to own it.
      ...(runAs !== undefined && keyFile !== undefined
        ? [`chown ${runAs} ${shellWord(keyFile)}`]
        : []),
      `launchctl bootstrap ${user ? 'gui/$(id -u)' : 'system'} ${path}`,
    ],
  };
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
