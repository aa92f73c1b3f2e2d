import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type ProxyDownload, retryAfterSeconds } from '#download/proxy-download';
import {
  bundlePath,
  contentMark,
  downloadPath,
  type ProxyReference,
  typedInstallation,
  typedStart,
} from '#download/proxy-reference';
import { isSlug, parseServerPath } from '#model/slug';
import { pageAssets } from './assets.ts';
import { errorSummary, textField } from './forms.ts';
import { html, type Html } from './html.ts';
import { ProgramAnswers, programSections } from './download-programs.ts';
import { bundleNote, codeBlock } from './instructions.ts';
import { type Frame, layout, type Link } from './layout.ts';
import { errorPage } from './messages.ts';
import { isCached, queryText, seeOther, sendPage } from './page-request.ts';
import { copyButton } from './tables.ts';

/** The path to which the form for a bundle is sent. */
const bundleFormPath = `${downloadPath}bundle`;

/** The URL that was typed into the form for a bundle, and its error. */
interface Typed {
  readonly url: string;
  readonly error: string;
}

/** The proxy that this server offers, with commands to run, install and verify it. */
function downloadPageData(
  proxy: ProxyReference & { readonly sha256: string },
  { base, size, typed }: { base: string; size: number; typed: Typed },
) {
  const address = `${base}${downloadPath}${proxy.fileName}`;
  return {
    base,
    proxy,
    kilobytes: Math.ceil(size / 1000),
    typed,
    commands: [
      {
        heading: 'Set up your assistants with one command',
        help: 'It needs Node.js 22.19 or newer. The command signs you in, lists the servers that you may use, and adds those that you choose to the assistants that you choose.',
        text: `${typedStart(proxy)} setup ${base}`,
      },
      {
        heading: 'Install the command latchkey',
        help: 'For agents that run as a service, and for people who use the command often.',
        text: typedInstallation(proxy),
      },
      {
        heading: 'Check the package',
        help: 'Downloads the package and compares it with its SHA-256. On macOS, type shasum -a 256 for sha256sum.',
        text: `curl -fsSO ${address}\ncurl -fsS ${address}.sha256 | sha256sum --check`,
      },
    ],
  };
}

type DownloadPageData = ReturnType<typeof downloadPageData>;

/** The download page of the proxy that matches this server, for people who want to see what their assistant runs. */
function downloadPage(data: DownloadPageData, frame: Frame): Html {
  const { proxy, kilobytes, commands, typed } = data;
  const [setup, install, check] = commands.map(
    ({ heading, help, text }) =>
      html`<section class="section">
<h2>${heading}</h2>
<p class="help">${help}</p>
${codeBlock({ text, name: `the command: ${heading}`, label: heading })}
</section>`,
  );
  const content = html`<div>
<h1>Download the proxy</h1>
<p class="lead">The program latchkey connects an assistant on your computer to this server. The instructions on this server’s pages run this copy of it.</p>
</div>
${errorSummary(typed.error === '' ? [] : [{ field: 'url', message: typed.error }])}
${setup}
${bundleForm(data)}
${programSections(proxy.programs, data.base)}
${install}
<section class="section">
<h2>The npm package</h2>
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
<dd>dist/sbom.cdx.json in the package is its software bill of materials (CycloneDX).</dd>
</div>
</dl>
</section>
${check}
<section class="section">
<h2>When npm does not trust this server’s certificate</h2>
<p class="help">Your company may use its own certificate authority. Save the certificate of that authority in a file, and set the environment variable NODE_EXTRA_CA_CERTS to the path of the file in the terminal, for npm and npx. Add --ca-file with the same path to the setup command, which writes it into the configuration of assistants. Under env, the variable is only for entries that you write by hand with npx.</p>
</section>`;
  return layout({ title: 'Download the proxy', width: 'text' }, frame, content);
}

function bundleForm({ base, proxy, typed }: DownloadPageData): Html {
  return html`<section class="section">
<h2>Or open a bundle</h2>
${
  proxy.bundles.state === 'ready' &&
  html`<p class="help">Claude Desktop and other assistants open .mcpb files with a double click. The bundle contains the proxy and the URL of one MCP server, and no secret: your browser opens to sign you in.</p>
<form method="get" action="${bundleFormPath}" novalidate>
${textField({
  name: 'url',
  label: 'URL of the MCP server',
  type: 'url',
  value: typed.url,
  autocomplete: 'off',
  error: typed.error || undefined,
  help: `For example ${base}/mcp/acme/sales`,
})}
<div class="actions"><button>Download bundle</button></div>
</form>`
}
${bundleNote(proxy.bundles, false)}
</section>`;
}

export interface DownloadRoutesOptions {
  /** The public URL. */
  readonly base: string;
  readonly proxyDownload: Pick<
    ProxyDownload,
    'fileName' | 'copy' | 'reference' | 'bundle' | 'programs' | 'program'
  >;
}

/**
 * The proxy that matches this server, without authentication because npm sends none when it installs from a URL.
 * The package is built once and served from memory.
 */
export function downloadRoutes(app: FastifyInstance, options: DownloadRoutesOptions): void {
  const { base, proxyDownload } = options;
  const { fileName } = proxyDownload;
  const address = `${base}${downloadPath}${fileName}`;
  const programs = new ProgramAnswers(proxyDownload);

  const page = async (
    request: FastifyRequest,
    reply: FastifyReply,
    typed: Typed,
    status: number,
  ) => {
    const copy = await proxyDownload.copy();
    if (!copy) return refuse(request, reply, noPackage);
    const { bytes, sha256 } = copy;
    const reference = { ...(await proxyDownload.reference(base)), sha256 };
    const data = downloadPageData(reference, { base, size: bytes.length, typed });
    return sendPage(reply, downloadPage, data, { status, scripts: [pageAssets().copy.path] });
  };

  app.get(downloadPath.slice(0, -1), (_request, reply) => reply.redirect(downloadPath, 308));

  app.get(downloadPath, async (request, reply) =>
    page(request, reply, { url: '', error: '' }, 200),
  );

  app.get<{ Params: { file: string } }>(`${downloadPath}:file`, async (request, reply) => {
    const { file } = request.params;
    if (file !== fileName && file !== `${fileName}.sha256`) {
      const answer = await programs.answer(request, reply, file);
      if (answer === 'busy') return refuse(request, reply, busy);
      const where = `the proxy for this server is at ${address}`;
      return answer ?? refuse(request, reply, notFound(where));
    }
    const copy = await proxyDownload.copy();
    if (!copy) return refuse(request, reply, noPackage);
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
    if (isCached(request, sha256)) return reply.code(304).send();
    return reply.header('Content-Type', 'application/gzip').send(bytes);
  });

  app.get(bundleFormPath, async (request, reply) => {
    const url = queryText(request, 'url') ?? '';
    const found = parseServerPath(url.trim().replace(`${base}/mcp/`, '').replace(/\/$/, ''));
    if (found) return seeOther(reply, bundlePath(found.organization, found.server));
    const error = `Enter the URL of an MCP server of this server, for example ${base}/mcp/acme/sales.`;
    return page(request, reply, { url, error }, 422);
  });

  bundleRoute(app, options);
}

const extension = '.mcpb';

/**
 * A bundle that connects to one MCP server. It is made from the path alone, for every well-formed name, so that it does not
 * reveal which servers exist.
 */
function bundleRoute(app: FastifyInstance, { base, proxyDownload }: DownloadRoutesOptions): void {
  type Params = { organization: string; file: string };
  app.get<{ Params: Params }>(`${downloadPath}:organization/:file`, async (request, reply) => {
    const { organization, file } = request.params;
    const server = file.endsWith(extension) ? file.slice(0, -extension.length) : '';
    if (!isSlug(organization) || !isSlug(server)) {
      return refuse(
        request,
        reply,
        notFound(
          `the bundle of an MCP server is at ${base}${bundlePath('ORGANIZATION', 'SERVER')}`,
        ),
      );
    }
    const url = `${base}/mcp/${organization}/${server}`;
    const bundle = await proxyDownload.bundle({ organization, server, url });
    if (!bundle) return refuse(request, reply, noBundle);
    const { parts, size, tag } = bundle;
    void reply.headers({
      ETag: `"${tag}"`,
      'Cache-Control': 'no-cache',
      'X-Content-Type-Options': 'nosniff',
    });
    if (isCached(request, tag)) return reply.code(304).send();
    void reply.headers({
      // Safari would unpack a zip file after the download.
      'Content-Type': 'application/octet-stream',
      'Content-Disposition': `attachment; filename="${organization}-${server}${extension}"`,
      'Content-Length': size,
    });
    return reply.send(Readable.from(parts, { objectMode: false }));
  });
}

/** The reason why no file is sent. */
interface Refusal {
  readonly status: 404 | 503;
  /** For programs. */
  readonly description: string;
  /** For people: what happened, and what to do instead. */
  readonly heading: string;
  readonly text: string;
  readonly next?: Link | undefined;
}

function notFound(what: string): Refusal {
  return {
    status: 404,
    description: `file not found: ${what}`,
    heading: 'File not found',
    text: `${what.charAt(0).toUpperCase()}${what.slice(1)}`,
    next: { text: 'Download the proxy', href: downloadPath },
  };
}

/** The reason is only logged, because it names folders of this host. */
const noPackage: Refusal = {
  status: 503,
  description:
    'this server has no copy of the proxy: ask its administrator to check the log. In a source tree, npm ci installs what the server needs to pack one',
  heading: 'This server has no copy of the proxy',
  text: 'Ask its administrator to check the log.',
};
const noBundle: Refusal = {
  status: 503,
  description:
    'the bundle of the proxy has not been built: try again in a minute. In a source tree, npm run bundle builds it',
  heading: 'The one-click bundle has not been built',
  text: 'Use the command on the page of the MCP server instead, or try again in a minute.',
  next: { text: 'Download the proxy', href: downloadPath },
};

const busy: Refusal = {
  status: 503,
  description: 'too many files are being downloaded: try again in a minute',
  heading: 'Too many files are being downloaded',
  text: 'Try again in a minute.',
  next: { text: 'Download the proxy', href: downloadPath },
};

/** Sends a page to a browser, and JSON to other programs. */
function refuse(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, description, heading, text, next }: Refusal,
): FastifyReply {
  void reply.header('Vary', 'Accept');
  if (status === 503) void reply.header('Retry-After', String(retryAfterSeconds));
  if (request.headers.accept?.includes('text/html')) {
    return sendPage(reply, errorPage, { heading, text, next }, { status });
  }
  const error = status === 404 ? 'not_found' : 'unavailable';
  return reply.code(status).send({ error, error_description: description });
}
