import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProgramFile } from '#download/program-files';
import type { ProxyDownload } from '#download/proxy-download';
import { contentMark, programPath } from '#download/proxy-reference';
import { networkOf } from '#model/networks';
import { html, type Html } from './html.ts';
import { codeBlock, executablesId, systemName } from './instructions.ts';
import { isCached, queryText } from './page-request.ts';
import { copyButton } from './tables.ts';

/** The most programs that are sent at once: each keeps a file open until its reader is done. */
const mostDownloads = 64;
/** The most programs that are sent to one network at once, so that slow readers cannot keep the programs from everybody else. */
const mostOfANetwork = 32;

/** The sections of the download page for computers without Node.js: executables, and packages of the tray app. */
export function programSections(programs: readonly ProgramFile[], base: string): Html {
  const executables = programs.filter(({ kind }) => kind === 'executable');
  const apps = programs.filter(({ kind }) => kind === 'app');
  return html`<section class="section">
<h2 id="${executablesId}">Without Node.js: one executable</h2>
${
  executables.length === 0
    ? html`<p class="help">This server offers no executable. Use the command above, or ask the operator of this server for one.</p>
<p class="help">For the operator: run <code>npm run sea</code> in the source code, on a computer of each system. Then copy its folder in <code>dist/sea</code> into <code>downloads</code> in the data folder of this server.</p>`
    : html`<p class="help">The program latchkey as one file. The commands download it, compare its SHA-256 and start the setup. Leave it where they put it: your assistants start it from there.</p>
${executables.map((one) => executableDetails(one, { base, isOpen: executables.length === 1 }))}`
}
</section>
<section class="section">
<h2 id="tray-app">The tray app</h2>
${
  apps.length === 0
    ? html`<p class="help">This server offers no package of the tray app. It is optional: the command latchkey does the same in a terminal.</p>
<p class="help">For the operator: <code>npm run app</code> in the source code builds the packages for the system that it runs on. Copy them, with the .json file beside each, into <code>downloads</code> in the data folder of this server.</p>`
    : html`<p class="help">It shows your connections and their status beside the clock, and contains the program latchkey.</p>
<dl class="facts">
${apps.map(
  (app) => html`<div>
<dt>${systemName(app)}</dt>
<dd>${fileLink(app)}</dd>
</div>
${digestFact(app)}`,
)}
</dl>`
}
</section>`;
}

function executableDetails(
  program: ProgramFile,
  { base, isOpen }: { readonly base: string; readonly isOpen: boolean },
): Html {
  const name = systemName(program);
  return html`<details class="other"${isOpen && html` open`}>
<summary>${name}</summary>
<div class="group">
<dl class="facts">
<div>
<dt>File</dt>
<dd>${fileLink(program)}</dd>
</div>
${digestFact(program)}
</dl>
${codeBlock({
  text: installCommands(program, base),
  name: `the commands for ${name}`,
  label: `Commands for ${name}`,
})}
${program.platform === 'win32' && html`<p class="help">In PowerShell.</p>`}
</div>
</details>`;
}

function fileLink(program: ProgramFile): Html {
  const { fileName, size, version } = program;
  return html`<a href="${programPath(program)}" download>${fileName}</a>, ${Math.ceil(size / 1_000_000)} MB, version ${version}`;
}

function digestFact({ fileName, sha256 }: ProgramFile): Html {
  return html`<div>
<dt>SHA-256</dt>
<dd class="copied">
<code>${sha256}</code>${copyButton(sha256, `the SHA-256 of ${fileName}`)}
</dd>
</div>`;
}

/** Commands to paste into a terminal. They replace and start the executable only if the download has the right SHA-256. */
function installCommands(program: ProgramFile, base: string): string {
  const { platform, sha256 } = program;
  const url = `${base}${programPath(program)}`;
  if (platform === 'win32') {
    return [
      `New-Item -ItemType Directory -Force "$env:LOCALAPPDATA\\Programs\\Latchkey" | Set-Location`,
      `Invoke-WebRequest "${url}" -OutFile latchkey.download`,
      `if ((Get-FileHash latchkey.download -Algorithm SHA256).Hash -eq "${sha256}") { Move-Item -Force latchkey.download latchkey.exe; .\\latchkey.exe setup ${base} } else { "The download is incomplete: try again" }`,
    ].join('\n');
  }
  const check = platform === 'darwin' ? 'shasum -a 256 --check' : 'sha256sum --check';
  return [
    'mkdir -p ~/.local/bin && cd ~/.local/bin &&',
    `curl -fsSo latchkey.download "${url}" &&`,
    `echo "${sha256}  latchkey.download" | ${check} &&`,
    'chmod +x latchkey.download && mv latchkey.download latchkey &&',
    `./latchkey setup ${base}`,
  ].join('\n');
}

type Programs = Pick<ProxyDownload, 'programs' | 'program'>;

/** Answers requests for programs and their digests. */
export class ProgramAnswers {
  readonly #programs: Programs;
  #sending = 0;
  /** How many are being sent to each network. */
  readonly #networks = new Map<string, number>();

  constructor(programs: Programs) {
    this.#programs = programs;
  }

  /** @returns `undefined` if there is no such file, `busy` if too many are being sent */
  async answer(
    request: FastifyRequest,
    reply: FastifyReply,
    file: string,
  ): Promise<FastifyReply | 'busy' | undefined> {
    const fileName = file.replace(/\.sha256$/, '');
    // A file that was replaced after it was listed is listed again.
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const program = (await this.#programs.programs()).find((one) => one.fileName === fileName);
      if (!program) return undefined;
      const { sha256 } = program;
      if (file !== fileName) {
        return reply.headers(digestHeaders).send(`${sha256}  ${fileName}\n`);
      }
      if (isCached(request, sha256)) {
        return reply.headers(cacheHeaders(request, program)).code(304).send();
      }
      const headers = { ...cacheHeaders(request, program), ...contentHeaders(program) };
      if (request.method === 'HEAD') return reply.headers(headers).send(Readable.from([]));
      const network = networkOf(request.ip);
      const isFull = (this.#networks.get(network) ?? 0) >= mostOfANetwork;
      if (isFull || this.#sending >= mostDownloads) return 'busy';
      const content = await this.#open(program, network);
      if (content) return reply.headers(headers).send(content);
    }
    return undefined;
  }

  /** Opens a program, and counts it until it is closed. */
  async #open(program: ProgramFile, network: string): Promise<Readable | undefined> {
    this.#count(network, 1);
    let content: Readable | undefined;
    try {
      content = await this.#programs.program(program);
      return content;
    } finally {
      const done = () => this.#count(network, -1);
      if (content) content.once('close', done);
      else done();
    }
  }

  #count(network: string, change: 1 | -1): void {
    this.#sending += change;
    const sending = (this.#networks.get(network) ?? 0) + change;
    if (sending > 0) this.#networks.set(network, sending);
    else this.#networks.delete(network);
  }
}

const digestHeaders = {
  'Content-Type': 'text/plain; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Content-Type-Options': 'nosniff',
};

function cacheHeaders(request: FastifyRequest, { sha256 }: ProgramFile): Record<string, string> {
  const isSettled = queryText(request, 'v') === contentMark(sha256);
  return {
    ETag: `"${sha256}"`,
    'Cache-Control': isSettled ? 'public, max-age=31536000, immutable' : 'no-cache',
    'X-Content-Type-Options': 'nosniff',
  };
}

function contentHeaders({ fileName, size }: ProgramFile): Record<string, string | number> {
  return {
    'Content-Type': 'application/octet-stream',
    'Content-Disposition': `attachment; filename="${fileName}"`,
    'Content-Length': size,
  };
}
