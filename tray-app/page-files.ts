/** Where the pages are. An origin of their own: no web page can be it, no file of the disk either. */
export const pageScheme = 'latchkey';
export const pageOrigin = `${pageScheme}://app`;

export const windowNames = ['connections', 'add', 'key', 'assistants', 'doctor'] as const;
export type WindowName = (typeof windowNames)[number];

/** What each window is called, and how large it is. */
export const windows: Record<WindowName, { title: string; width: number; height: number }> = {
  connections: { title: 'Connections', width: 720, height: 560 },
  add: { title: 'Add connection', width: 560, height: 720 },
  key: { title: 'Key', width: 520, height: 520 },
  assistants: { title: 'Assistants', width: 640, height: 560 },
  doctor: { title: 'Doctor', width: 640, height: 560 },
};

const types: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
};

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Goes along with every page: nothing from elsewhere, nothing inline, nothing embedded. */
export const pageHeaders = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
} as const;

/**
 * The file below the folder of the pages that a URL of ours means, and its type; `undefined` for any
 * other. Names are of one part, so that no path leads out.
 */
export function pageFile(url: string): { name: string; type: string } | undefined {
  const parsed = URL.parse(url);
  if (!parsed || `${parsed.protocol}//${parsed.host}` !== pageOrigin) return undefined;
  const [, name = '', ending = ''] = /^\/([a-z-]+\.(html|css|js))$/.exec(parsed.pathname) ?? [];
  const type = types[ending];
  return type === undefined ? undefined : { name, type };
}

/** The address of a window's page; `name` is the connection that it is about. */
export function pageUrl(window: WindowName, name?: string): string {
  const query = name === undefined ? '' : `?${new URLSearchParams({ name }).toString()}`;
  return `${pageOrigin}/${window}.html${query}`;
}

/** Whether a page of ours asks, from a window's main frame; nobody else is answered. */
export function isOurPage(url: string | undefined, isMainFrame: boolean): boolean {
  return isMainFrame && url !== undefined && pageFile(url)?.type === types['html'];
}
