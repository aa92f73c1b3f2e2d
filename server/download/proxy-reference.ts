import type { ProgramFile } from './program-files.ts';

/**
 * Where to get the proxy, for everything that this program renders or prints. This is the server's own copy rather
 * than a package of a registry: until the proxy is published, anyone could register its name there.
 */
export interface ProxyReference {
  /** `latchkey-VERSION.tgz` */
  readonly fileName: string;
  /** The URL for npx and npm. It changes with the content, because npx caches what it installed from a URL. */
  readonly url: string;
  /** In hexadecimal; `undefined` while no copy is available. */
  readonly sha256: string | undefined;
  readonly bundles: BundleOffer;
  /** Executables and packages of the tray app, for computers without Node.js. */
  readonly programs: readonly ProgramFile[];
}

/** Whether this server also offers bundles (`.mcpb`). A server that runs from a source tree builds them first. */
export type BundleOffer =
  | {
      readonly state: 'ready';
      /** The systems that they work on, as Node names them. */
      readonly platforms: readonly string[];
    }
  | { readonly state: 'building' | 'missing' };

/** The folder of URLs of the proxy that matches this server. */
export const downloadPath = '/download/';

/** How many characters of the digest are in the URL. */
const markLength = 16;

export function proxyReference(
  base: string,
  { fileName, sha256, bundles, programs }: Omit<ProxyReference, 'url'>,
): ProxyReference {
  const mark = sha256 === undefined ? '' : `?v=${contentMark(sha256)}`;
  return { fileName, url: `${base}${downloadPath}${fileName}${mark}`, sha256, bundles, programs };
}

/** The path of a program, which changes with its content. */
export function programPath({ fileName, sha256 }: ProgramFile): string {
  return `${downloadPath}${fileName}?v=${contentMark(sha256)}`;
}

export function bundlePath(organization: string, server: string): string {
  return `${downloadPath}${organization}/${server}.mcpb`;
}

/** The part of the URL that identifies the content. */
export function contentMark(sha256: string): string {
  return sha256.slice(0, markLength);
}

/**
 * The program and arguments with which an assistant starts the proxy. With `--prefer-offline` npm does
 * not request the URL at each start, nor wait a minute while the server is down. The content of a URL never changes.
 */
export function startWords({ url }: ProxyReference): readonly [string, ...string[]] {
  return ['npx', '-y', '--prefer-offline', url];
}

/** The command line that starts the proxy. The URL is quoted, because some shells expand a question mark. */
export function typedStart({ url }: ProxyReference): string {
  return `npx -y "${url}"`;
}

export function typedInstallation({ url }: ProxyReference): string {
  return `npm install --global "${url}"`;
}
