import { posix, win32 } from 'node:path';

export type Machine = { platform: NodeJS.Platform; home: string; env: NodeJS.ProcessEnv };

/**
 * The files in which the assistants keep this user's own servers. Files inside projects are left
 * out: whoever writes a repository must not choose where our credentials go.
 */
export function userFiles({ platform, home, env }: Machine): string[] {
  const path = platform === 'win32' ? win32 : posix;
  const applications =
    platform === 'darwin'
      ? path.join(home, 'Library', 'Application Support')
      : platform === 'win32'
        ? env['APPDATA'] || path.join(home, 'AppData', 'Roaming')
        : env['XDG_CONFIG_HOME'] || path.join(home, '.config');
  return [
    path.join(applications, 'Claude', 'claude_desktop_config.json'),
    path.join(home, '.claude.json'),
    path.join(home, '.gemini', 'settings.json'),
    path.join(home, '.cursor', 'mcp.json'),
    path.join(applications, 'Code', 'User', 'mcp.json'),
  ];
}
