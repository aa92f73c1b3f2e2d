import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { retryAfterSeconds, type ProxyDownload } from '#download/proxy-download';
import { contentMark, downloadPath, proxyReference } from '#download/proxy-reference';
import { pageAssets } from '#pages/assets';
import { downloadPage, downloadPageData } from '#pages/download-page';
import { queryText } from './query-text.ts';
import { sendPage } from './send-page.ts';

export interface DownloadRoutesOptions {
  /** The public URL. */
  readonly base: string;
  readonly proxyDownload: Pick<ProxyDownload, 'fileName' | 'copy'>;
}

/**
 * The proxy that fits this server, for anybody: npm sends no credential when it installs by URL. It is made once, and what
 * is asked for afterwards is in memory.
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

/** Whether the caller has this content already. RFC 9110 §13.1.2 */
function isKnown({ headers }: FastifyRequest, sha256: string): boolean {
  const tags = headers['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags?.some((tag) => tag === '*' || tag === `"${sha256}"`) ?? false;
}

/** The reason is in the log, as it names folders of this machine. */
function unavailable(reply: FastifyReply): FastifyReply {
  return reply.code(503).header('Retry-After', String(retryAfterSeconds)).send({
    error: 'unavailable',
    error_description:
      'this server has no copy of the proxy: its administrator finds the reason in its log. Among the sources, npm ci brings what packs one',
  });
}
