import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface RecordedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Empty where there was none. */
  body: string;
}

export interface RecordingServer {
  /** With the path `/mcp`. */
  url: string;
  requests: RecordedRequest[];
  close(): Promise<void>;
}

/** `body` is the request's JSON, read already; `undefined` where there is none or it is broken. */
export type Handle = (req: IncomingMessage, res: ServerResponse, body: unknown) => Promise<void>;

/** An HTTP server on a free port of 127.0.0.1 that records every request. */
export async function recordingServer(handle: Handle): Promise<RecordingServer> {
  const requests: RecordedRequest[] = [];
  const server = createServer((req, res) => {
    void (async () => {
      const body = (await buffer(req)).toString();
      const { method = '', url = '', headers } = req;
      requests.push({ method, path: url, headers, body });
      await handle(req, res, parsed(body));
    })().catch((error: unknown) => {
      if (!res.headersSent) res.writeHead(500);
      res.end(String(error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    requests,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
