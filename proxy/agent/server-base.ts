import { webUrl } from '#transport/web-url';
import { AgentError } from './agent-error.ts';

/**
 * The server's public URL, without a slash at its end: https, or http on a loopback host only.
 *
 * @throws {AgentError} `server`
 */
export function serverBase(text: string | undefined): string {
  if (text === undefined)
    throw new AgentError('server', 'which server? name its URL with --server-url', {
      remedy: 'as in: latchkey agent --server-url https://cloud.example.com',
    });
  const url = webUrl(text);
  if (!url || url.search || url.hash)
    throw new AgentError('server', '--server-url is not the https URL of a server', {
      remedy: 'http is for this very machine only, as http://127.0.0.1:8787',
    });
  return url.href.replace(/\/+$/, '');
}

/** Where agents connect. `docs/tunnel.md`, "Dialling" */
export function tunnelUrl(base: string): URL {
  return new URL(`${base.replace(/^http/, 'ws')}/api/agents/connect`);
}
