import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { FastifyInstance } from 'fastify';
import { copyScript } from '#web/scripts/copy';
import { dashboardScript } from '#web/scripts/dashboard';
import { passkeysScript } from '#web/scripts/passkeys';
import { setUpScript } from '#web/scripts/set-up';
import { stylesheet } from '#web/style/stylesheet';

/** A file that pages refer to. Its path holds the hash of its content, so browsers may cache it forever. */
interface Asset {
  readonly path: string;
  readonly type: string;
  readonly content: string;
  /** For the `integrity` attribute. SRI §3.1 */
  readonly integrity: string;
}

/** The files by their names in code. */
type Assets = Readonly<
  Record<'stylesheet' | 'icon' | 'passkeys' | 'setUp' | 'copy' | 'htmx' | 'dashboard', Asset>
>;

let made: Assets | undefined;

/** The files that pages refer to. They are built on first use and then never change. */
export function pageAssets(): Assets {
  made ??= {
    stylesheet: asset('latchkey', 'css', 'text/css; charset=utf-8', stylesheet),
    icon: asset('icon', 'svg', 'image/svg+xml', icon),
    passkeys: asset('passkeys', 'js', 'text/javascript; charset=utf-8', passkeysScript),
    setUp: asset('setup', 'js', 'text/javascript; charset=utf-8', setUpScript),
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

/** The lines of the logo, a key about to lift a latch, in a viewBox of 16 by 16. They have no colour of their own. */
export const markPaths = `<circle cx="4.25" cy="8" r="2.75"/>
<path d="M7 8h5.25M10 8v2.5"/>
<path d="M12.25 2.75H14.5v10.5h-2.25"/>`;

/** The favicon: the logo in the accent colour of the browser's colour scheme. */
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round">
<style>svg { stroke: #00615c } @media (prefers-color-scheme: dark) { svg { stroke: #6cc9c0 } }</style>
${markPaths}
</svg>
`;

/** htmx without the link to its source map. This server serves it, because pages load nothing from other sites. */
function htmxScript(): string {
  const { resolve } = createRequire(import.meta.url);
  return readFileSync(resolve('htmx.org/dist/htmx.esm.min.js'), 'utf8').replace(
    /\n\/\/# sourceMappingURL=.*\s*$/,
    '\n',
  );
}

/** The stylesheet and scripts of the pages. Paths change with the content. */
export function assetRoutes(app: FastifyInstance): void {
  for (const { path, type, content } of Object.values(pageAssets())) {
    app.get(path, (_request, reply) =>
      reply
        .headers({
          'Content-Type': type,
          'Cache-Control': 'public, max-age=31536000, immutable',
          'X-Content-Type-Options': 'nosniff',
        })
        .send(content),
    );
  }
}
