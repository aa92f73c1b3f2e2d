import type { Launcher } from './launch-entry.ts';

/** The folder that npx keeps what it started in, up to its own package.json. */
const npxFolder = /^(.*[\\/]_npx[\\/][^\\/]+[\\/])node_modules[\\/]/;
/** No package of a registry is named: one of this name may be anybody's. */
const unknown = 'install it from the file or URL that you started it from';

/**
 * What to do when npx runs this program, whose folder npm may clear at any time; `undefined` when it is
 * installed. The package came from the URL of a server, and is installed from the same one.
 */
export function npxHint(
  launcher: Launcher,
  { readText }: { readText: (path: string) => string | undefined },
): string | undefined {
  const [, folder] = ('script' in launcher && npxFolder.exec(launcher.script)) || [];
  if (folder === undefined) return undefined;
  const source = sourceIn(readText(`${folder}package.json`));
  const remedy = source === undefined ? unknown : `npm install --global "${source}" keeps it`;
  return `npx may throw this program away; ${remedy}`;
}

/** The URL that npx was given, as it notes it. */
function sourceIn(text: string | undefined): string | undefined {
  try {
    const { dependencies }: { dependencies?: { latchkey?: unknown } } = JSON.parse(text ?? '');
    const source = dependencies?.latchkey;
    return typeof source === 'string' && /^https?:\/\/[!#-~]+$/.test(source) ? source : undefined;
  } catch {
    return undefined;
  }
}
