import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pageFile, pageHeaders } from '#page-files';

/** What a page's request gets: a file of `folder`, or 404. */
export function pageResponse({ url, method }: Request, folder: string): Response {
  const file = pageFile(url);
  const path = file && join(folder, file.name);
  if (!path || method !== 'GET' || !existsSync(path)) return new Response(null, { status: 404 });
  const headers = { ...pageHeaders, 'Content-Type': file.type };
  return new Response(new Uint8Array(readFileSync(path)), { headers });
}
