import type { LocalAnswer } from './local-server.ts';

/** An answer that is there whole: JSON, or nothing but a status. */
export function plainAnswer(
  status: number,
  json?: Buffer | string,
  headers: Readonly<Record<string, string>> = {},
): LocalAnswer {
  if (json === undefined) return { status, headers, body: oneChunk() };
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: oneChunk(typeof json === 'string' ? Buffer.from(json) : json),
  };
}

async function* oneChunk(bytes?: Buffer): AsyncGenerator<Buffer> {
  if (bytes) yield bytes;
}
