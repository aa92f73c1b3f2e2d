import type { Host } from '#host';
import { helperEnvironment } from '#config/options';

export type Desktop = Pick<Host, 'platform' | 'env'>;

export type Command = { command: string; args: string[] };

/**
 * The program that opens `url` on this computer, and its arguments; `undefined` if there is no desktop, as over SSH. `BROWSER`
 * takes precedence: a program, or a command with `%s` for the URL. No shell is used, and only web pages are opened, because the
 * URL comes from a server (CVE-2025-6514).
 */
export function browserCommand(url: URL, { platform, env }: Desktop): Command | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined;
  const { href } = url;
  const chosen = env['BROWSER']?.trim();
  if (chosen) return fromVariable(chosen, href, platform);
  if (env['SSH_CONNECTION'] || env['SSH_TTY']) return undefined;
  if (platform === 'darwin') return { command: '/usr/bin/open', args: [href] };
  if (platform === 'win32') {
    const root = env['SystemRoot'] || 'C:\\Windows';
    const command = `${root}\\System32\\rundll32.exe`;
    return { command, args: ['url.dll,FileProtocolHandler', href] };
  }
  if (!env['DISPLAY'] && !env['WAYLAND_DISPLAY'] && !env['WSL_DISTRO_NAME']) return undefined;
  return { command: 'xdg-open', args: [href] };
}

/** Except on Windows, `BROWSER` may list several programs, separated by colons, as for `xdg-open`. The first is used. */
function fromVariable(value: string, href: string, platform: NodeJS.Platform): Command | undefined {
  const first = platform === 'win32' ? value : (value.split(':')[0] ?? value);
  if (!first.includes('%s')) return { command: first, args: [href] };
  const [command, ...args] = first.split(/\s+/).filter(Boolean);
  if (command === undefined || command.includes('%s')) return undefined;
  return { command, args: args.map((word) => word.replaceAll('%s', href)) };
}

/** Opens `url` in the browser. Returns whether a program was started; it outlives this process. */
export async function openBrowser(url: URL, desktop: Desktop): Promise<boolean> {
  const chosen = browserCommand(url, desktop);
  if (!chosen) return false;
  // Imported here, because the bundle would otherwise load it at every start.
  const { spawn } = await import('node:child_process');
  return new Promise((resolve) => {
    const child = spawn(chosen.command, chosen.args, {
      env: helperEnvironment(desktop.env),
      stdio: 'ignore',
      detached: true,
      shell: false,
      windowsHide: true,
    });
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}
