import { createHash } from 'node:crypto';

import { passkeysScript } from './passkeys-script.ts';
import { stylesheet } from './stylesheet.ts';

/** A file that pages refer to. Its path holds the hash of its content, so it can be kept for good. */
export interface Asset {
  readonly path: string;
  readonly type: string;
  readonly content: string;
}

export type Assets = Readonly<Record<'stylesheet' | 'passkeys', Asset>>;

let made: Assets | undefined;

/** The files that pages refer to, the same all the time; made when first asked for. */
export function pageAssets(): Assets {
  made ??= {
    stylesheet: asset('latchkey', 'css', 'text/css; charset=utf-8', stylesheet),
    passkeys: asset('passkeys', 'js', 'text/javascript; charset=utf-8', passkeysScript),
  };
  return made;
}

function asset(name: string, extension: string, type: string, content: string): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return { path: `/assets/${name}.${hash}.${extension}`, type, content };
}
