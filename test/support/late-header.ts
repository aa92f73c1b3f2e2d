import { toolsList } from './mcp-call.ts';
import { rawHttp } from './raw-http.ts';

/** More lines than Node keeps of a header by default. */
const filler = 'a:\r\n'.repeat(1100);

/** A header line that a check has to read, sent after `filler`, and the status that must answer it. */
interface LateLine {
  readonly line: string;
  readonly status: number;
  readonly request?: (endpoint: URL, key: string) => readonly string[];
}

const call = ({ pathname, host }: URL, key: string) => [
  `POST ${pathname} HTTP/1.1`,
  `Host: ${host}`,
  `X-API-Key: ${key}`,
  'Content-Type: application/json',
];
const administration = ({ host }: URL) => [
  'POST /api/admin/organizations HTTP/1.1',
  `Host: ${host}`,
  'Authorization: Bearer none',
  'Content-Type: application/json',
];
const length = `Content-Length: ${toolsList.length}`;

export const lateLines: Readonly<Record<string, LateLine>> = {
  'nothing that matters': { line: 'X-Late: yes', status: 200 },
  'a second key': { line: 'X-API-Key: mcp_other', status: 400 },
  'a second credential': { line: 'Authorization: Bearer other', status: 400 },
  'a foreign Origin': { line: 'Origin: https://evil.example', status: 403 },
  'a second Host': { line: 'Host: evil.example', status: 400 },
  'a transfer coding': { line: 'Transfer-Encoding: gzip, chunked', status: 400 },
  'a second token at the admin API': {
    line: 'Authorization: Bearer other',
    status: 400,
    request: administration,
  },
  'a foreign Origin at the admin API': {
    line: 'Origin: https://evil.example',
    status: 403,
    request: administration,
  },
};

/** The statuses of the answers to a request with that line. */
export async function lateLine(
  { line, request = call }: LateLine,
  endpoint: URL,
  key: string,
): Promise<{ statuses: readonly number[]; text: string }> {
  const isCoded = line.startsWith('Transfer-Encoding');
  const head = [...request(endpoint, key), 'Connection: close', ...(isCoded ? [] : [length])];
  const body = isCoded
    ? `${toolsList.length.toString(16)}\r\n${toolsList}\r\n0\r\n\r\n`
    : toolsList;
  return rawHttp(Number(endpoint.port), `${head.join('\r\n')}\r\n${filler}${line}\r\n\r\n${body}`);
}
