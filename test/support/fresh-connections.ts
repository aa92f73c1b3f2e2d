import { type IncomingHttpHeaders, request } from 'node:http';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** How many requests `many` sends. */
const atOnce = 16;

export interface SentRequest {
  /** JSON or a form, sent with POST. Without a body, the request is a GET. */
  readonly body?: string | URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface SentAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/**
 * Sends a request on a new connection: several processes that share a port get connections in turn, and a connection stays with its process.
 */
export function send(url: string, { body, headers = {} }: SentRequest = {}): Promise<SentAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<SentAnswer>();
  const isForm = body instanceof URLSearchParams;
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
  const sent = request(url, {
    method: body === undefined ? 'GET' : 'POST',
    agent: false,
    headers: { ...(body !== undefined && { 'content-type': type }), ...headers },
  });
  sent.once('error', reject).once('response', (answer) => {
    let text = '';
    answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    answer.once('error', reject);
    answer.once('end', () =>
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }),
    );
  });
  sent.end(body?.toString());
  return promise;
}

/** The results of enough concurrent calls to reach all processes. */
export const many = <T>(call: (at: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: atOnce }, (_, at) => call(at)));

/** The different statuses of answers. */
export const statusesOf = async (
  calls: Promise<readonly { readonly status: number }[]>,
): Promise<number[]> => [...new Set((await calls).map(({ status }) => status))];

/** The processes that a program has started, by their ids, the oldest first. */
export async function childrenOf(pid: number): Promise<number[]> {
  // Not sorted by id, because ids begin again after the largest.
  const words = ['-o', 'pid=', '--ppid', String(pid), '--sort=start_time'];
  const { stdout } = await run('ps', words);
  return stdout.trim().split('\n').map(Number);
}
