import { LoopbackError } from './loopback-error.ts';

/**
 * The query of the redirect that somebody copies out of the browser's address bar, where the browser
 * runs on another machine and cannot reach our listener. Other lines get `complain`.
 *
 * @throws {LoopbackError} `pasted` when the input ends before
 */
export async function pastedRedirect(
  lines: AsyncIterable<string>,
  redirectUri: string,
  isOurs: (query: URLSearchParams) => boolean,
  complain: (message: string) => void,
): Promise<URLSearchParams> {
  for await (const line of lines) {
    const text = line.trim();
    if (text === '') continue;
    const url = text.startsWith(`${redirectUri}?`) ? URL.parse(text) : null;
    if (url && isOurs(url.searchParams)) return url.searchParams;
    complain(`that is not the redirect of this sign-in; it begins with ${redirectUri}?`);
  }
  throw new LoopbackError('pasted', 'the input ended before the redirect was pasted');
}
