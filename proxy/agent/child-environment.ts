const inherited: Readonly<Record<'posix' | 'windows', readonly string[]>> = {
  posix: ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TMPDIR', 'TZ', 'LANG', 'LANGUAGE'],
  windows: [
    'PATH',
    'PATHEXT',
    'SYSTEMROOT',
    'SYSTEMDRIVE',
    'COMSPEC',
    'TEMP',
    'TMP',
    'USERNAME',
    'USERPROFILE',
    'HOMEDRIVE',
    'HOMEPATH',
    'APPDATA',
    'LOCALAPPDATA',
    'PROGRAMDATA',
    'PROGRAMFILES',
    'PROCESSOR_ARCHITECTURE',
  ],
};

/**
 * The environment of a child: where programs, its home and its language are, and what was configured for it.
 * What else stands in `ours` may be a secret of ours, so nothing of it goes along.
 */
export function childEnvironment(
  ours: Readonly<Record<string, string | undefined>>,
  configured: Readonly<Record<string, string>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const windows = platform === 'win32';
  const names = new Set(inherited[windows ? 'windows' : 'posix']);
  const kept = Object.entries(ours).filter((entry): entry is [string, string] => {
    const [name, value] = entry;
    if (value === undefined || value.startsWith('()')) return false; // A function of the shell's.
    return names.has(windows ? name.toUpperCase() : name) || (!windows && name.startsWith('LC_'));
  });
  return { ...Object.fromEntries(kept), ...configured };
}
