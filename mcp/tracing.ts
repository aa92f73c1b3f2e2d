/*
 * OpenTelemetry spans. The only file of this folder that does I/O, and the only one that is loaded on demand: a
 * program imports it if `readTraceOptions` finds that the environment names a collector.
 *
 * Names and attributes are those of the OpenTelemetry conventions for MCP, which are still in development; our own
 * begin with `latchkey.`. A span contains fixed words, the names of servers, methods, tools and prompts, request ids and the
 * network address of the caller, but no arguments, credentials or URLs.
 *
 * open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md
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
  type SpanContext,
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
import { legacyVersions, modernVersions, traceHeaders, type ReceivedHeaders } from './headers.ts';
import { readMessage, spanAt, stringAt, withText, type Message } from './message.ts';
import type { TraceOptions } from './trace-options.ts';

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;
/** How long an ending program waits for the collector. */
const flushMs = 2000;
/** The shortest time between two reports that the collector cannot be reached. */
const reportEveryMs = 60_000;

export interface SpanStart {
  readonly kind: keyof typeof kinds;
  readonly attributes: Attributes;
  /** In milliseconds since 1970. Default: now. */
  readonly startedAtMs?: number;
  /** The message that the span is about. The context in its `_meta` takes precedence over that of the headers. */
  readonly message?: Message | undefined;
}

/** The parts of a JSON-RPC message that a span records. An `Envelope` has them. */
export interface TracedMessage {
  readonly method?: string | undefined;
  /** The tool or prompt that it names. */
  readonly name?: string | undefined;
  /** The JSON text of the id. */
  readonly id?: string | undefined;
}

/** A request that may carry a message. */
interface SentRequest {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body?: Uint8Array;
  /** The result of scanning `body`, if it was scanned. */
  readonly message?: Message | undefined;
}

export interface TracingSettings extends TraceOptions {
  /** The name of the service, unless the environment sets another. */
  readonly program: string;
  readonly version: string;
  /** Called when spans cannot be delivered, at most once a minute. */
  readonly failed: (message: string) => void;
}

/**
 * Sends spans in batches over OTLP/HTTP. Calls never wait for the collector: spans that it refuses are dropped, and so are spans
 * beyond the 2048 that wait to be sent.
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

  /**
   * Begins a span. Its parent is the span that the message names in `_meta`. The span that `headers` name is then only
   * linked, because they describe how the message is transported rather than why it was sent. If the message names no span,
   * the one in `headers` is the parent; without either, a new trace begins.
   *
   * SEP-414; OpenTelemetry conventions for MCP, "Context propagation"
   */
  begin(
    name: string,
    headers: ReceivedHeaders,
    { kind, attributes, startedAtMs, message }: SpanStart,
  ): OpenSpan {
    const transported = traceHeaders(headers);
    const inMeta = message ? traceInMeta(message) : {};
    const continued = contextOf(inMeta) ? inMeta : transported;
    const parent = contextOf(continued);
    const linked = continued === inMeta ? contextOf(transported) : undefined;
    const isOther = linked && linked.spanId !== parent?.spanId;
    const start = {
      kind: kinds[kind],
      attributes,
      startTime: startedAtMs ?? Date.now(),
      links: isOther ? [{ context: linked }] : [],
    };
    const context = parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
    return new OpenSpan(this.#tracer.startSpan(name, start, context), continued['tracestate']);
  }

  /**
   * Sends `request` within a client span, with the header that continues the trace at the receiver. If the message in the
   * body names a span in its `_meta`, this span replaces it there. The span is named after the message, or `name` if there is
   * none. A request without a trace, such as one that no call caused, gets no span.
   */
  async within<
    Request extends SentRequest,
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
    const version = request.headers['mcp-protocol-version'];
    const message = messageOf(request);
    span.describe(message?.envelope, typeof version === 'string' ? version : undefined);
    try {
      const headers = { ...request.headers, traceparent };
      const answer = await send({
        ...request,
        headers,
        ...continuedIn(message, request, traceparent),
      });
      const status = answer.status ?? answer.statusCode ?? 0;
      span.set({ 'http.response.status_code': status });
      span.end(status >= 400 ? String(status) : undefined);
      return answer;
    } catch (error) {
      span.end(errorType(error));
      throw error;
    }
  }

  /** Delivers the waiting spans, for at most two seconds. Never rejects. */
  async close(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, flushMs);
    await Promise.race([this.#provider.shutdown().catch(() => undefined), late.promise]);
    clearTimeout(timer);
  }
}

export class OpenSpan {
  /** The header that continues the trace below this span. */
  readonly traceparent: string;
  /** The `tracestate` that the caller sent with its trace, if any. */
  readonly tracestate: string | undefined;
  readonly #span: Span;

  constructor(span: Span, tracestate?: string) {
    this.tracestate = tracestate;
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceparent = `00-${traceId}-${spanId}-0${traceFlags & 1}`;
    this.#span = span;
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  /**
   * Names the span after the message, and adds its method, target, id and protocol version. Text that does not look like
   * a name, an id or a known version is omitted, because a caller could send anything, even a secret.
   */
  describe({ method, name, id }: TracedMessage = {}, version?: string): void {
    if (!isName(method)) return;
    const key = named.get(method);
    const target = key !== undefined && isName(name) ? name : undefined;
    this.#span.updateName(target === undefined ? method : `${method} ${target}`);
    const requestId = id === undefined ? undefined : idText(id);
    const isKnown = version !== undefined && versions.has(version);
    this.#span.setAttributes({
      'mcp.method.name': method,
      ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
      ...(key !== undefined && target !== undefined && { [key]: target }),
      ...(requestId !== undefined && { 'jsonrpc.request.id': requestId }),
      ...(isKnown && { 'mcp.protocol.version': version }),
    });
  }

  /** `error` is one of our codes or an HTTP status, never a message, which could contain a secret. */
  end(error?: string): void {
    if (!this.#span.isRecording()) return;
    if (error !== undefined) {
      this.#span.setAttribute('error.type', error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

/** The trace context in the `_meta` of a message, as headers would carry it. SEP-414 */
function traceInMeta(message: Message): Record<string, string> {
  const textOf = (name: string) => stringAt(message, 'params', '_meta', name);
  return traceHeaders({ traceparent: textOf('traceparent'), tracestate: textOf('tracestate') });
}

/** The span that the result of `traceHeaders` names. */
function contextOf({ traceparent }: Record<string, string>): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceparent?.split('-') ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  const traceFlags = Number.parseInt(flags ?? '', 16) & 1;
  return { traceId, spanId, traceFlags, isRemote: true };
}

/**
 * The members to change in a request, so that its message names `traceparent`; none if the message names no span. All other
 * bytes stay the same.
 */
function continuedIn(
  message: Message | undefined,
  request: SentRequest,
  traceparent: string,
): Pick<SentRequest, 'body' | 'message'> {
  const span = message && spanAt(message, 'params', '_meta', 'traceparent');
  if (!span || !contextOf(traceInMeta(message))) return {};
  const changed = withText(message, span, JSON.stringify(traceparent));
  return { body: changed.body, ...(request.message && { message: changed }) };
}

/** Maps a method to the attribute for the name in its requests. `resources/read` is absent, because a URI may contain anything. */
const named: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'gen_ai.tool.name'],
  ['prompts/get', 'gen_ai.prompt.name'],
]);
const versions: ReadonlySet<string> = new Set([...modernVersions, ...legacyVersions]);

/** The message in the body of a request, if there is one. */
function messageOf({ body, message }: SentRequest): Message | undefined {
  if (!body) return undefined;
  return message?.body === body ? message : readMessage(body);
}

/** The id from its JSON text, if it is a number or can be a name. */
function idText(json: string): string | undefined {
  const text = json.startsWith('"') ? json.slice(1, -1) : json;
  return isName(text) ? text : undefined;
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
