import type { FastifyInstance } from 'fastify';
import { downloadPath } from '#download/proxy-reference';
import { pageAssets } from './assets.ts';
import { html, type Html } from './html.ts';
import { codeBlock } from './instructions.ts';
import { dashboardPath, type Frame, layout } from './layout.ts';
import { sendPage } from './page-request.ts';

interface Place {
  Params: { organization: string; server: string };
}

/**
 * The page for a person who opens the URL of an MCP endpoint in a browser, instead of the JSON error for this request. It reads no database,
 * so it is the same whether or not the server exists. The status and `Allow` are those of the error.
 */
export function endpointPageRoutes(
  app: FastifyInstance,
  { base }: { readonly base: string },
): void {
  app.get<Place>('/mcp/:organization/:server', async ({ params }, reply) => {
    const { organization, server } = params;
    const data = {
      url: `${base}/mcp/${organization}/${server}`,
      dashboard: `${dashboardPath(organization)}/servers/${server}`,
    };
    const { copy } = pageAssets();
    void reply.headers({ Allow: 'POST, GET, DELETE', Vary: 'Accept' });
    return sendPage(reply, endpointPage, data, { status: 405, scripts: [copy.path] });
  });
}

interface EndpointPageData {
  readonly url: string;
  readonly dashboard: string;
}

function endpointPage({ url, dashboard }: EndpointPageData, frame: Frame): Html {
  const heading = 'This address is for AI assistants';
  const content = html`<div>
<h1>${heading}</h1>
<p class="lead">It is the URL of an MCP server. Your assistant connects to it and uses its tools; a browser has nothing to show here.</p>
</div>
<section class="section" aria-labelledby="connect-heading">
<h2 id="connect-heading">Connect your assistant</h2>
<p class="help">Type this in a terminal. If you do not have the command latchkey yet, <a href="${downloadPath}">download it</a> first.</p>
${codeBlock({ text: `latchkey setup ${url}`, name: 'the command', label: 'The command' })}
<p class="help">The page of the server in the dashboard also shows the configuration for each assistant.</p>
<p><a class="button" href="${dashboard}">Open in the dashboard</a></p>
</section>`;
  return layout({ title: heading, width: 'text' }, frame, content);
}
