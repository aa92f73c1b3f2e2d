/**
 * Where the proxy comes from, for everything that this program renders or prints. No package of a registry is named: until one
 * is published, its name there belongs to anybody. So it is this server's own copy.
 */
export interface ProxyReference {
  /** `latchkey-VERSION.tgz` */
  readonly fileName: string;
  /** What npx and npm install. It changes with the content, since npx keeps what it once installed from a URL. */
  readonly url: string;
  /** In hexadecimal digits; `undefined` while there is no copy to hand out. */
  readonly sha256: string | undefined;
}

/** Where the copy of the proxy is that fits this server. */
export const downloadPath = '/download/';

/** How much of the digest is in the URL. */
const markLength = 16;

export function proxyReference(
  base: string,
  { fileName, sha256 }: Pick<ProxyReference, 'fileName' | 'sha256'>,
): ProxyReference {
  const mark = sha256 === undefined ? '' : `?v=${contentMark(sha256)}`;
  return { fileName, url: `${base}${downloadPath}${fileName}${mark}`, sha256 };
}

/** What tells one content of the file from another, in its URL. */
export function contentMark(sha256: string): string {
  return sha256.slice(0, markLength);
}

/**
 * The program and arguments by which an assistant starts the proxy. npm would ask for the URL again at each start, and for a
 * minute while the server is away; what the URL names never changes.
 */
export function startWords({ url }: ProxyReference): readonly [string, ...string[]] {
  return ['npx', '-y', '--prefer-offline', url];
}

/** The same for a person to type. Quoted, as some shells look for files with a question mark. */
export function typedStart({ url }: ProxyReference): string {
  return `npx -y "${url}"`;
}

/** What a person types to have the command `latchkey`. */
export function typedInstallation({ url }: ProxyReference): string {
  return `npm install --global "${url}"`;
}
