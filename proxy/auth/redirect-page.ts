import { createHash } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';

export type RedirectPage = { status: number; title: string; text: string };

const style = `:root{color-scheme:light dark;--ground:oklch(98% .004 200);--ink:oklch(25% .02 210);--ink-soft:oklch(48% .02 210);--accent:oklch(48% .09 195)}
@media(prefers-color-scheme:dark){:root{--ground:oklch(20% .012 210);--ink:oklch(93% .01 200);--ink-soft:oklch(72% .015 205);--accent:oklch(76% .1 190)}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:480px;margin:0 auto;padding:48px 24px}
p{color:var(--ink-soft);margin:0 0 12px;overflow-wrap:anywhere}
.mark{color:var(--accent);font-size:14px;font-weight:600}
h1{font-size:20px;font-weight:600;margin:12px 0}`;

const styleHash = createHash('sha256').update(style).digest('base64');

/** What the browser may do with it: show it. Nothing else is loaded, run, framed, kept or told. */
const headers: OutgoingHttpHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  connection: 'close',
};

/** A page for the browser in which somebody signs in: how it went, and where to go on. */
export function redirectPage({ title, text }: RedirectPage): {
  headers: OutgoingHttpHeaders;
  body: string;
} {
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)} · Latchkey</title><style>${style}</style></head>
<body><main><p class="mark">Latchkey</p><h1>${escaped(title)}</h1><p>${escaped(text)}</p></main></body></html>
`;
  return { headers, body };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
