import type { Host } from '#host';
import { helperEnvironment } from '#config/options';

export type Desktop = Pick<Host, 'platform' | 'env'>;

export type Command = { command: string; args: string[] };

/**
 * The program that shows `url` to the person at this computer, and its arguments; `undefined` if there is no desktop,
 * as over SSH. `BROWSER` wins: a program, or words with `%s` for the URL. Never a
 * shell, and only for web pages, since the URL comes from a server (CVE-2025-6514).
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

/** Several programs may be named, with colons between, as `xdg-open` has it; the first is taken. */
function fromVariable(value: string, href: string, platform: NodeJS.Platform): Command | undefined {
  const first = platform === 'win32' ? value : (value.split(':')[0] ?? value);
  if (!first.includes('%s')) return { command: first, args: [href] };
  const [command, ...args] = first.split(/\s+/).filter(Boolean);
  if (command === undefined || command.includes('%s')) return undefined;
  return { command, args: args.map((word) => word.replaceAll('%s', href)) };
}

/** Whether a program was started to show `url`; it goes on without us. */
export async function openBrowser(url: URL, desktop: Desktop): Promise<boolean> {
  const chosen = browserCommand(url, desktop);
  if (!chosen) return false;
  // Not above: the bundle would load it at every start.
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
