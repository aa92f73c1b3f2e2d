import type { LocalAnswer } from './local-server.ts';

/** An answer that is there whole: JSON, or nothing but a status. */
export function plainAnswer(
  status: number,
  json?: Buffer | string,
  headers: Readonly<Record<string, string>> = {},
): LocalAnswer {
  if (json === undefined) return { status, headers, body: Buffer.alloc(0) };
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof json === 'string' ? Buffer.from(json) : json,
  };
}
