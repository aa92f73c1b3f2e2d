import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ProxyDownload, retryAfterSeconds } from '#download/proxy-download';
import {
  contentMark,
  downloadPath,
  type ProxyReference,
  proxyReference,
  typedInstallation,
  typedStart,
} from '#download/proxy-reference';
import { pageAssets } from './assets.ts';
import { html, type Html } from './html.ts';
import { codeBlock } from './instructions.ts';
import { type Frame, layout } from './layout.ts';
import { queryText, sendPage } from './page-request.ts';
import { copyButton } from './tables.ts';

/** The proxy package that this server offers; `checksum` is the path of a file with its SHA-256. */
interface DownloadPageData {
  readonly proxy: ProxyReference & { readonly sha256: string };
  readonly kilobytes: number;
  /** Commands to run, install and verify it. */
  readonly commands: readonly {
    readonly heading: string;
    readonly help: string;
    readonly text: string;
  }[];
}

function downloadPageData(
  proxy: DownloadPageData['proxy'],
  { size, address }: { size: number; address: string },
): DownloadPageData {
  return {
    proxy,
    kilobytes: Math.ceil(size / 1000),
    commands: [
      {
        heading: 'Run it without installing it',
        help: 'It needs Node.js 22.19 or newer. npx keeps a copy, so only the first start downloads it.',
        text: `${typedStart(proxy)} --help`,
      },
      {
        heading: 'Install the command latchkey',
        help: 'For agents that run as a service, and for people who use the command often.',
        text: typedInstallation(proxy),
      },
      {
        heading: 'Check the file',
        help: 'Downloads the file and compares it with its SHA-256. On macOS, type shasum -a 256 for sha256sum.',
        text: `curl -fsSO ${address}\ncurl -fsS ${address}.sha256 | sha256sum --check`,
      },
    ],
  };
}

/** The download page of the proxy that matches this server, for people who want to see what their assistant runs. */
function downloadPage({ proxy, kilobytes, commands }: DownloadPageData, frame: Frame): Html {
  const content = html`<div>
<h1>Download the proxy</h1>
<p class="lead">The program latchkey carries MCP from an assistant on your computer to this server. The configurations on this server’s pages run this copy of it.</p>
</div>
<dl class="facts">
<div>
<dt>File</dt>
<dd><a href="${proxy.url}">${proxy.fileName}</a>, ${kilobytes} kB</dd>
</div>
<div>
<dt>SHA-256</dt>
<dd class="copied">
<code>${proxy.sha256}</code>${copyButton(proxy.sha256, 'the SHA-256')}
</dd>
</div>
<div>
<dt>What it contains</dt>
<dd>The file dist/sbom.cdx.json in it is its software bill of materials (CycloneDX).</dd>
</div>
</dl>
${commands.map(
  ({ heading, help, text }) =>
    html`<section class="section">
<h2>${heading}</h2>
<p class="help">${help}</p>
${codeBlock({ text, name: `what to type: ${heading}`, label: heading })}
</section>`,
)}
<section class="section">
<h2>When npm does not trust this server’s certificate</h2>
<p class="help">Your company may sign it with a certificate authority of its own. Save the certificate of that authority in a file, and set the environment variable NODE_EXTRA_CA_CERTS to the path of the file: in the terminal, and under env in the configuration of an assistant. npm, npx and the proxy read it.</p>
</section>`;
  return layout({ title: 'Download the proxy', width: 'text' }, frame, content);
}

export interface DownloadRoutesOptions {
  /** The public URL. */
  readonly base: string;
  readonly proxyDownload: Pick<ProxyDownload, 'fileName' | 'copy'>;
}

/**
 * The proxy that matches this server, without authentication because npm sends none when it installs from a URL.
 * Built once and served from memory.
 */
export function downloadRoutes(
  app: FastifyInstance,
  { base, proxyDownload }: DownloadRoutesOptions,
): void {
  const { fileName } = proxyDownload;
  const address = `${base}${downloadPath}${fileName}`;

  app.get(downloadPath.slice(0, -1), (_request, reply) => reply.redirect(downloadPath, 308));

  app.get(downloadPath, async (_request, reply) => {
    const copy = await proxyDownload.copy();
    if (!copy) return unavailable(reply);
    const { bytes, sha256 } = copy;
    const reference = { ...proxyReference(base, { fileName, sha256 }), sha256 };
    const data = downloadPageData(reference, { size: bytes.length, address });
    return sendPage(reply, downloadPage, data, { scripts: [pageAssets().copy.path] });
  });

  app.get<{ Params: { file: string } }>(`${downloadPath}:file`, async (request, reply) => {
    const { file } = request.params;
    if (file !== fileName && file !== `${fileName}.sha256`) {
      return reply.code(404).send({
        error: 'not_found',
        error_description: `there is no such file: the proxy that fits this server is ${address}`,
      });
    }
    const copy = await proxyDownload.copy();
    if (!copy) return unavailable(reply);
    const { bytes, sha256 } = copy;
    void reply.header('X-Content-Type-Options', 'nosniff');
    if (file !== fileName) {
      const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-cache' };
      return reply.headers(headers).send(`${sha256}  ${fileName}\n`);
    }
    const isSettled = queryText(request, 'v') === contentMark(sha256);
    void reply.headers({
      ETag: `"${sha256}"`,
      'Cache-Control': isSettled ? 'public, max-age=31536000, immutable' : 'no-cache',
    });
    if (isKnown(request, sha256)) return reply.code(304).send();
    return reply.header('Content-Type', 'application/gzip').send(bytes);
  });
}

/** Whether the caller has this content cached. RFC 9110 §13.1.2 */
function isKnown({ headers }: FastifyRequest, sha256: string): boolean {
  const tags = headers['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags?.some((tag) => tag === '*' || tag === `"${sha256}"`) ?? false;
}

/** The reason is only logged, because it names folders of this host. */
function unavailable(reply: FastifyReply): FastifyReply {
  return reply.code(503).header('Retry-After', String(retryAfterSeconds)).send({
    error: 'unavailable',
    error_description:
      'this server has no copy of the proxy: its administrator finds the reason in its log. Among the sources, npm ci brings what packs one',
  });
}
