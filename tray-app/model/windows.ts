/**
 * Every window. Everything that depends on the set of windows derives from this: the pages that are built (`pages/NAME.ts`), the
 * files that are served, the windows that a page may open, and the entries of the tray menu, in this order.
 */
export const windows = {
  connections: { title: 'Connections', width: 720, height: 560, menuLabel: 'Connections' },
  servers: { title: 'Your servers', width: 720, height: 640, menuLabel: 'Your servers' },
  add: { title: 'Add connection', width: 560, height: 720, menuLabel: 'Add connection…' },
  /** About one connection, and opened from there: it has no entry of its own in the menu. */
  key: { title: 'Key', width: 520, height: 520, menuLabel: undefined },
  /** About one connection, too. */
  rename: { title: 'Rename', width: 480, height: 360, menuLabel: undefined },
  assistants: { title: 'Assistants', width: 640, height: 560, menuLabel: 'Assistants' },
  devices: { title: 'Devices', width: 640, height: 560, menuLabel: 'Devices' },
  doctor: { title: 'Doctor', width: 640, height: 560, menuLabel: 'Doctor' },
} as const satisfies Record<string, WindowDeclaration>;

type WindowDeclaration = {
  title: string;
  width: number;
  height: number;
  /** `undefined` if the tray menu does not open it. */
  menuLabel: string | undefined;
};

export type WindowName = keyof typeof windows;

/** The names in the order of the declaration. */
export const windowNames = Object.keys(windows).filter(
  (name): name is WindowName => name in windows,
);

/** The stylesheets of all pages; the first one imports the others. */
export const stylesheets = ['windows.css', 'tokens.css'] as const;

/** The pages have an origin of their own, which neither a web page nor a local file can have. */
export const pageScheme = 'latchkey';
const pageOrigin = `${pageScheme}://app`;

/** The address of a window's page; `connection` is the name of the connection that the page is about. */
export function pageUrl(window: WindowName, connection?: string): string {
  const query =
    connection === undefined ? '' : `?${new URLSearchParams({ name: connection }).toString()}`;
  return `${pageOrigin}/${window}.html${query}`;
}

const html = 'text/html; charset=utf-8';

/** The files that the scheme serves: file name to content type. */
const pageFiles: ReadonlyMap<string, string> = new Map([
  ...stylesheets.map((name) => [name, 'text/css; charset=utf-8'] as const),
  ...windowNames.flatMap(
    (name) =>
      [
        [`${name}.html`, html],
        [`${name}.js`, 'text/javascript; charset=utf-8'],
      ] as const,
  ),
]);

/** The file and its content type that a URL of the scheme names; `undefined` for any other URL. */
export function pageFile(url: string): { name: string; type: string } | undefined {
  const parsed = URL.parse(url);
  if (!parsed || `${parsed.protocol}//${parsed.host}` !== pageOrigin) return undefined;
  const name = parsed.pathname.slice(1);
  const type = pageFiles.get(name);
  return type === undefined ? undefined : { name, type };
}

/** Whether a request comes from one of our pages, in the main frame of a window. All others are refused. */
export function isOurPage(url: string | undefined, isMainFrame: boolean): boolean {
  return isMainFrame && url !== undefined && pageFile(url)?.type === html;
}

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Sent with every page: they forbid content from elsewhere, inline content and embedding. */
export const pageHeaders = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
} as const;

/** The document of a window's page, which its script fills. The build writes it. */
export function pageDocument(name: WindowName): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${windows[name].title} · Latchkey</title>
    <link rel="stylesheet" href="${stylesheets[0]}" />
    <script type="module" src="${name}.js"></script>
  </head>
  <body>
    <main id="page" aria-busy="true"></main>
    <p id="announcement" class="announcement" role="status" aria-live="polite"></p>
  </body>
</html>
`;
}
