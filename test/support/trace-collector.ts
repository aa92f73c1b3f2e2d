import { createServer } from 'node:http';
import { z } from 'zod';
import { listen } from './loopback.ts';

const attributeSchema = z.object({
  key: z.string(),
  value: z.object({ stringValue: z.string().optional(), intValue: z.number().optional() }),
});
const requestSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: z.array(attributeSchema) }),
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              traceId: z.string(),
              spanId: z.string(),
              parentSpanId: z.string().optional(),
              name: z.string(),
              kind: z.number(),
              status: z.object({ code: z.number().optional() }).optional(),
              links: z.array(z.object({ traceId: z.string(), spanId: z.string() })).optional(),
              attributes: z.array(attributeSchema),
            }),
          ),
        }),
      ),
    }),
  ),
});

/** A span as it was delivered. */
export interface CollectedSpan {
  readonly service: unknown;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** 2 for a server, 3 for a client. */
  readonly kind: number;
  /** Whether its status is an error. */
  readonly isError: boolean;
  /** The spans that it is linked to. */
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** Takes spans over OTLP/HTTP as JSON, as a collector of OpenTelemetry does. */
export interface TraceCollector extends AsyncDisposable {
  /** `OTEL_EXPORTER_OTLP_ENDPOINT` of the programs that send traces here. */
  readonly env: Readonly<Record<string, string>>;
  readonly spans: CollectedSpan[];
  /** All that was received, as text. */
  readonly received: () => string;
}

export async function traceCollector(): Promise<TraceCollector> {
  const bodies: string[] = [];
  const spans: CollectedSpan[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      bodies.push(`${JSON.stringify(request.headers)}${body}`);
      if (request.url !== '/v1/traces') return void response.writeHead(404).end();
      spans.push(...spansIn(body));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  const port = await listen(server);
  return {
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` },
    spans,
    received: () => bodies.join('\n'),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function spansIn(body: string): CollectedSpan[] {
  return requestSchema.parse(JSON.parse(body)).resourceSpans.flatMap((of) => {
    const service = valuesOf(of.resource.attributes)['service.name'];
    return of.scopeSpans.flatMap((scope) =>
      scope.spans.map(({ traceId, spanId, parentSpanId, name, kind, ...span }) => ({
        service,
        traceId,
        spanId,
        parentSpanId: parentSpanId || undefined,
        name,
        kind,
        isError: span.status?.code === 2,
        links: span.links ?? [],
        attributes: valuesOf(span.attributes),
      })),
    );
  });
}

function valuesOf(attributes: z.infer<typeof attributeSchema>[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]),
  );
}
