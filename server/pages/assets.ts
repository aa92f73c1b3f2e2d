import { createHash } from 'node:crypto';

import { copyScript } from './copy-script.ts';
import { dashboardScript } from './dashboard-script.ts';
import { htmxScript } from './htmx-script.ts';
import { passkeysScript } from './passkeys-script.ts';
import { stylesheet } from './stylesheet.ts';

/** A file that pages refer to. Its path holds the hash of its content, so it can be kept for good. */
export interface Asset {
  readonly path: string;
  readonly type: string;
  readonly content: string;
  /** For the `integrity` attribute. SRI §3.1 */
  readonly integrity: string;
}

/** Each of the files by what it is. */
export type Assets = Readonly<
  Record<'stylesheet' | 'passkeys' | 'copy' | 'htmx' | 'dashboard', Asset>
>;

let made: Assets | undefined;

/** The files that pages refer to, the same all the time; made when first asked for. */
export function pageAssets(): Assets {
  made ??= {
    stylesheet: asset('latchkey', 'css', 'text/css; charset=utf-8', stylesheet),
    passkeys: asset('passkeys', 'js', 'text/javascript; charset=utf-8', passkeysScript),
    copy: asset('copy', 'js', 'text/javascript; charset=utf-8', copyScript),
    htmx: asset('htmx', 'js', 'text/javascript; charset=utf-8', htmxScript()),
    dashboard: asset('dashboard', 'js', 'text/javascript; charset=utf-8', dashboardScript),
  };
  return made;
}

function asset(name: string, extension: string, type: string, content: string): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16);
  const integrity = `sha256-${createHash('sha256').update(content).digest('base64')}`;
  return { path: `/assets/${name}.${hash}.${extension}`, type, content, integrity };
}
