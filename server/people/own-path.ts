/**
 * Where to go after a sign-in: `text` when it is a path of ours, else the start page. A browser reads
 * `//evil`, `/\evil` and a tab between the slashes as another host. WHATWG URL §4.4
 */
export function ownPath(text: string | undefined, base: string): string {
  const start = '/';
  if (text === undefined || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return start;
  const url = URL.canParse(text, base) ? new URL(text, base) : undefined;
  return url?.origin === base ? text : start;
}
