/*
 * Spans of OpenTelemetry. The only module of this folder that does I/O, and the only one that is loaded on demand: a
 * program imports it once `readTraceOptions` has said that traces are wanted.
 *
 * A span holds words of our own and names of servers, methods and tools: no argument, no credential, no caller, no URL.
 */
import {
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span,
  type Tracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
} from '@opentelemetry/sdk-trace';
import { traceHeaders, type ReceivedHeaders } from './headers.ts';
import type { TraceOptions } from './trace-options.ts';

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;
/** How long a program that ends waits for the collector. */
const flushMs = 2000;
/** A collector that is down is reported once in this time. */
const reportEveryMs = 60_000;

export interface SpanStart {
  readonly kind: keyof typeof kinds;
  readonly attributes: Attributes;
  /** In milliseconds since 1970; now unless given. */
  readonly startedAtMs?: number;
}

export interface TracingSettings extends TraceOptions {
  /** Unless the environment names the service. */
  readonly program: string;
  readonly version: string;
  /** Told when spans cannot be delivered, at most once a minute. */
  readonly failed: (message: string) => void;
}

/**
 * Sends spans in batches over OTLP/HTTP. Nothing waits for the collector: spans that it does not take are dropped, and of
 * those that wait for it 2048 are kept.
 */
export class Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;

  constructor({ program, version, serviceName, failed, ...sampling }: TracingSettings) {
    let silentUntilMs = 0;
    const report = (message: string) => {
      const nowMs = performance.now();
      if (nowMs < silentUntilMs) return;
      silentUntilMs = nowMs + reportEveryMs;
      failed(message);
    };
    const ignore = () => undefined;
    const logger = { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore };
    diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    const described = { 'service.name': program, 'service.version': version };
    const named = serviceName === undefined ? {} : { 'service.name': serviceName };
    this.#provider = new TracerProvider({
      sampler: samplerOf(sampling),
      resource: resourceFromAttributes(described)
        .merge(detectResources({ detectors: [envDetector] }))
        .merge(resourceFromAttributes(named)),
      spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
      spanLimits: { attributeValueLengthLimit: 256 },
    });
    this.#tracer = this.#provider.getTracer('latchkey', version);
  }

  /** Begins a span below the one that `headers` name, or a trace of its own. */
  begin(
    name: string,
    headers: ReceivedHeaders,
    { kind, attributes, startedAtMs }: SpanStart,
  ): OpenSpan {
    const [, traceId, spanId, flags] = traceHeaders(headers)['traceparent']?.split('-') ?? [];
    const context =
      traceId === undefined || spanId === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId,
            spanId,
            traceFlags: Number.parseInt(flags ?? '', 16) & 1,
            isRemote: true,
          });
    const start = { kind: kinds[kind], attributes, startTime: startedAtMs ?? Date.now() };
    return new OpenSpan(this.#tracer.startSpan(name, start, context));
  }

  /**
   * Sends `request` on within a client span, with the headers that continue the trace there. Where no trace comes along, as
   * with requests that no call caused, there is no span.
   */
  async within<
    Request extends { readonly headers: Readonly<Record<string, unknown>> },
    Answer extends { readonly status?: number; readonly statusCode?: number | undefined },
  >(
    name: string,
    attributes: Attributes,
    request: Request,
    send: (request: Request) => Promise<Answer>,
  ): Promise<Answer> {
    const { traceparent: given } = request.headers;
    const parent = { traceparent: typeof given === 'string' ? given : undefined };
    if (traceHeaders(parent)['traceparent'] === undefined) return send(request);
    const span = this.begin(name, parent, { kind: 'client', attributes });
    const { traceparent } = span;
    try {
      const answer = await send({ ...request, headers: { ...request.headers, traceparent } });
      const status = answer.status ?? answer.statusCode ?? 0;
      span.set({ 'http.response.status_code': status });
      span.end(status >= 400 ? String(status) : undefined);
      return answer;
    } catch (error) {
      span.end(errorType(error));
      throw error;
    }
  }

  /** Delivers what waits, for at most two seconds. Never rejects. */
  async close(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, flushMs);
    await Promise.race([this.#provider.shutdown().catch(() => undefined), late.promise]);
    clearTimeout(timer);
  }
}

/** A span that has begun. */
export class OpenSpan {
  /** The header that continues the trace below this span. */
  readonly traceparent: string;
  readonly #span: Span;

  constructor(span: Span) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceparent = `00-${traceId}-${spanId}-0${traceFlags & 1}`;
    this.#span = span;
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  /** Says which call it is. What cannot be a name is left out: a caller wrote it, and it could be anything, a secret too. */
  describe(method: string | undefined, toolGiven?: string): void {
    if (!isName(method)) return;
    const tool = isName(toolGiven) ? toolGiven : undefined;
    this.#span.updateName(tool === undefined ? method : `${method} ${tool}`);
    this.#span.setAttribute('mcp.method.name', method);
    if (tool !== undefined) this.#span.setAttribute('gen_ai.tool.name', tool);
  }

  /** `error` is a code of ours or an HTTP status, no message: that could hold anything. */
  end(error?: string): void {
    if (!this.#span.isRecording()) return;
    if (error !== undefined) {
      this.#span.setAttribute('error.type', error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

function isName(text: string | undefined): text is string {
  return text !== undefined && /^[\w./-]{1,128}$/.test(text);
}

function errorType(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

function samplerOf({ sampler, ratio }: Pick<TraceOptions, 'sampler' | 'ratio'>): Sampler {
  switch (sampler) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  }
}
