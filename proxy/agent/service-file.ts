/** How the service starts, and where its description lies. */
export type ServicePlan = {
  kind: 'systemd' | 'launchd';
  /** Whether it is this user's own service or the machine's. */
  user: boolean;
  home: string;
  /** The words of the command line, the program first. */
  command: readonly string[];
  /** The key file of a service of the machine's, which is handed to it as a credential. */
  keyFile?: string;
  base: string;
};

export const serviceName = 'latchkey-agent';
const launchdLabel = 'latchkey.agent';
/** Without it a file is somebody else's. */
export const serviceMark = 'Made by latchkey agent install';

/** The file of a service, for the system's own manager. systemd.service(5), launchd.plist(5) */
export function serviceFile(plan: ServicePlan): {
  path: string;
  text: string;
  next: string[];
  /** What whoever replaces the key has to know. */
  newKey?: string;
} {
  return plan.kind === 'systemd' ? systemd(plan) : launchd(plan);
}

function systemd({ user, home, command, keyFile, base }: ServicePlan) {
  const words = command.map(unitWord);
  const credential = !user && keyFile !== undefined;
  // A credential is readable by the service alone, whoever owns the file.
  if (credential) words.push('--key-file', '"%d/agent-key"');
  const text = `# ${serviceMark}. Changes belong into a drop-in: systemctl ${user ? '--user ' : ''}edit ${serviceName}
[Unit]
Description=Latchkey agent for ${base.replaceAll('%', '%%')}
${user ? '' : 'Wants=network-online.target\nAfter=network-online.target\n'}
[Service]
Type=exec
ExecStart=${words.join(' ')}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=5
# The agent ends its children itself; what is left after that goes by force.
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
${user ? '' : machineHardening(credential ? keyFile : undefined)}
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
      ...(user ? ['loginctl enable-linger   (to run while nobody is signed in)'] : []),
    ],
    ...(credential && {
      newKey: `a new key in ${keyFile} counts after ${manager} restart ${serviceName}; from systemd 260 on a reload does, and ends no call`,
    }),
  };
}

/** What only the machine's own manager can do. Not MemoryDenyWriteExecute: Node compiles while it runs. */
function machineHardening(keyFile: string | undefined): string {
  const credential = `LoadCredential=agent-key:${keyFile?.replaceAll('%', '%%')}
# Read again by systemctl reload, from systemd 260 on; before, a running service keeps the key that it was started with.
RefreshOnReload=credentials
`;
  return `${keyFile === undefined ? '' : credential}# A user of its own, with a home for what children such as npx keep.
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

/** A word of ExecStart=, where `%`, `$`, quotes and backslashes mean something. systemd.service(5) */
function unitWord(word: string): string {
  const escaped = word
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('%', '%%')
    .replaceAll('$', '$$$$');
  return /^[\w@./:=+-]+$/.test(word) ? escaped : `"${escaped}"`;
}

function launchd({ user, home, command, keyFile }: ServicePlan) {
  const words = keyFile === undefined || user ? command : [...command, '--key-file', keyFile];
  const strings = words.map((word) => `    <string>${xml(word)}</string>`);
  const text = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${serviceMark}. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>${launchdLabel}</string>
  <key>ProgramArguments</key>
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
  return { path, text, next: [`launchctl bootstrap ${user ? 'gui/$(id -u)' : 'system'} ${path}`] };
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
