import { typedInstallation, typedStart, type ProxyReference } from '#download/proxy-reference';
import type { Page } from './page.ts';

/** The proxy that this server hands out; `checksum` is where its SHA-256 is as a file. */
export interface DownloadPageData {
  readonly proxy: ProxyReference & { readonly sha256: string };
  readonly kilobytes: number;
  /** Commands by which it is run, installed and checked. */
  readonly commands: readonly {
    readonly heading: string;
    readonly help: string;
    readonly text: string;
  }[];
}

export function downloadPageData(
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

/** The copy of the proxy that fits this server, for people who want to see what their assistant runs. */
export const downloadPage: Page<DownloadPageData> = {
  title: () => 'Download the proxy',
  width: 'text',
  template: `<div>
<h1>Download the proxy</h1>
<p class="lead">The program latchkey carries MCP from an assistant on your computer to this server. The configurations on this server’s pages run this copy of it.</p>
</div>
<dl class="facts">
<div><dt>File</dt><dd><a href="<%= it.proxy.url %>"><%= it.proxy.fileName %></a>, <%= it.kilobytes %> kB</dd></div>
<div><dt>SHA-256</dt><dd class="copied"><code><%= it.proxy.sha256 %></code><button type="button" data-copy="<%= it.proxy.sha256 %>" aria-label="Copy the SHA-256" hidden>Copy</button></dd></div>
<div><dt>What it contains</dt><dd>The file dist/sbom.cdx.json in it is its software bill of materials (CycloneDX).</dd></div>
</dl>
<% for (const { heading, help, text } of it.commands) { %>
<section class="section"><h2><%= heading %></h2><p class="help"><%= help %></p><%~ include('@code', { text, of: 'what to type: ' + heading, label: heading }) %></section>
<% } %>
<section class="section"><h2>When npm does not trust this server’s certificate</h2>
<p class="help">Your company may sign it with a certificate authority of its own. Save the certificate of that authority in a file, and set the environment variable NODE_EXTRA_CA_CERTS to the path of the file: in the terminal, and under env in the configuration of an assistant. npm, npx and the proxy read it.</p></section>`,
};
