import { IncomingMessage } from 'node:http';
import { HttpError } from '#proxy/transport/http-error';
import { Socket } from 'node:net';
import { type HttpClient, type HttpRequest } from '#proxy/transport/http-client';
import { networkOfHost } from '#proxy/transport/networks';

/** `status` 0: there is no server. Without `json`: a page. */
export type Page = { status?: number; json?: unknown; headers?: Record<string, string> };
export type SeenForm = HttpRequest & { form: URLSearchParams };

/** The web as a table that may change; what is not in it is 404. */
export function web(pages: Record<string, Page | ((request: SeenForm) => Page)>) {
  const requests: SeenForm[] = [];
  const http: HttpClient = {
    request(request) {
      const seen = { ...request, form: new URLSearchParams(String(request.body ?? '')) };
      requests.push(seen);
      const found = pages[request.url.href] ?? { status: 404 };
      const page = typeof found === 'function' ? found(seen) : found;
      if (page.status === 0)
        return Promise.reject(new HttpError('unreachable', `${request.url.origin}: ECONNREFUSED`));
      const message = new IncomingMessage(new Socket());
      message.statusCode = page.status ?? 200;
      message.headers = page.headers ?? {};
      message.push(page.json === undefined ? '<html>' : JSON.stringify(page.json));
      message.push(null);
      return Promise.resolve(message);
    },
    networkOf: ({ hostname }) => Promise.resolve(networkOfHost(hostname) ?? 'public'),
    close: () => {},
  };
  return { http, requests, asked: () => requests.map((request) => request.url.href) };
}
