import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** How long a request is repeated at most. */
const repeatedForMs = 60_000;

/**
 * Forwards a request to the node at the port that `portFor` returns, and passes the answer on. After a 503 with `Retry-After` it sends
 * the whole request again after that time, to the port that `portFor` then returns, unless the request has `X-Test-Once`.
 */
export async function balance(
  request: IncomingMessage,
  response: ServerResponse,
  portFor: (request: IncomingMessage) => number,
): Promise<void> {
  const deadline = performance.now() + repeatedForMs;
  const received: Buffer[] = [];
  request.on('data', (part: Buffer) => received.push(part));
  const sent = forwarded(request, response, portFor(request));
  request.pipe(sent.onward);
  for (let answer = await sent.answer; answer;) {
    const again = Number(answer.headers['retry-after']) * 1000;
    const mayRepeat =
      answer.statusCode === 503 &&
      again <= deadline - performance.now() &&
      request.complete &&
      request.headers['x-test-once'] === undefined;
    if (!mayRepeat) return passOn(answer, response);
    answer.resume();
    await pause(again);
    if (response.closed) return;
    const repeated = forwarded(request, response, portFor(request));
    repeated.onward.end(Buffer.concat(received));
    answer = await repeated.answer;
  }
}

/** A request to a node, which ends when the caller's response closes. If it fails, `answer` is `undefined` and `response` is destroyed. */
function forwarded(request: IncomingMessage, response: ServerResponse, port: number) {
  const onward = httpRequest({
    host: '127.0.0.1',
    port,
    method: request.method,
    path: request.url,
    headers: request.headers,
    // A connection that is kept could be closed by the node at the moment it is used again.
    agent: false,
  });
  const { promise: answer, resolve } = Promise.withResolvers<IncomingMessage | undefined>();
  onward.once('response', resolve);
  onward.once('error', () => {
    response.destroy();
    resolve(undefined);
  });
  response.once('close', () => onward.destroy());
  return { onward, answer };
}

function passOn(answer: IncomingMessage, response: ServerResponse): void {
  response.writeHead(answer.statusCode ?? 502, answer.headers).flushHeaders();
  answer.pipe(response);
  answer.once('error', () => response.destroy());
}
