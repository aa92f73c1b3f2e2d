import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { CallOutcome, MeteredCall } from '#gateway/metering';
import type { RefusalCode } from '#gateway/gateway-refusal';

/** The most servers with series of their own. Calls to all others are counted under one name. */
const mostServers = 1000;
const otherServers = 'other';
/** Upper bounds of the latency histogram. */
const boundsSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Upper bounds of `mcp.server.operation.duration`, as the OpenTelemetry conventions for MCP advise. */
const operationBoundsSeconds = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const outcomes = ['ok', 'tool-error', 'refused', 'upstream-error'] as const;

/** Methods with series of their own. Callers and servers can send any text, so all others are counted under one name. */
const knownMethods: ReadonlySet<string> = new Set([
  'completion/complete',
  'initialize',
  'logging/setLevel',
  'ping',
  'prompts/get',
  'prompts/list',
  'resources/list',
  'resources/read',
  'resources/subscribe',
  'resources/templates/list',
  'resources/unsubscribe',
  'server/discover',
  'tasks/cancel',
  'tasks/get',
  'tasks/list',
  'tasks/result',
  'tasks/update',
  'tools/call',
  'tools/list',
]);
/** JSON-RPC codes with series of their own: the codes that JSON-RPC, MCP and the gateway define. */
const knownCodes: ReadonlySet<string> = new Set(
  [
    -32700, -32600, -32601, -32602, -32603, -32800, -32000, -32001, -32002, -32003, -32020, -32021,
    -32022, -32042,
  ].map(String),
);
const other = '_OTHER';

/** A number that is read each time the metrics are requested. */
export interface Gauge {
  readonly name: string;
  readonly help: string;
  /** One value, or one for each value of the label. */
  readonly read: () => number | Readonly<Record<string, number>>;
  readonly label?: string;
  /** Whether the number only grows. */
  readonly isCounter?: boolean;
}

export interface MetricsPorts {
  readonly version: string;
  readonly gauges: readonly Gauge[];
  /** Each probe sends a cheap request, and rejects if there is no answer. `nats` is present only if NATS connects the nodes. */
  readonly probes: {
    readonly database: () => Promise<unknown>;
    readonly nats?: () => Promise<unknown>;
  };
}

/** An admitted call that ended. */
type CountedCall = Pick<MeteredCall, 'outcome' | 'ms' | 'errorType'> & {
  readonly serverPath: string;
  readonly method?: string | undefined;
};

/** A histogram of durations. */
class Durations {
  readonly #boundsSeconds: readonly number[];
  readonly #counts: number[];
  #sumSeconds = 0;

  constructor(bounds: readonly number[]) {
    this.#boundsSeconds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(seconds: number): void {
    const bucket = this.#boundsSeconds.findIndex((bound) => seconds <= bound);
    const index = bucket === -1 ? this.#boundsSeconds.length : bucket;
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#sumSeconds += seconds;
  }

  samples(labels: Readonly<Record<string, string>>): Sample[] {
    let total = 0;
    const buckets = this.#counts.map((count, index): Sample => {
      total += count;
      return ['_bucket', { ...labels, le: String(this.#boundsSeconds[index] ?? '+Inf') }, total];
    });
    return [...buckets, ['_sum', labels, this.#sumSeconds], ['_count', labels, total]];
  }
}

/**
 * Counts for Prometheus. Labels are names of organizations and servers, methods, outcomes and codes, never a caller, key, person,
 * client or tool, so that the number of series is bounded and no caller is tracked.
 *
 * Prometheus text format 0.0.4
 */
export class Metrics {
  readonly #calls = new Map<string, Map<CallOutcome, number>>();
  readonly #latencies = new Map<CallOutcome, Durations>();
  /** By method, then by type of error; calls that did not fail have the empty type. */
  readonly #operations = new Map<string, Map<string, Durations>>();
  readonly #refusals = new Map<RefusalCode, number>();
  readonly #loop = monitorEventLoopDelay({ resolution: 20 });
  #loopUse = performance.eventLoopUtilization();

  constructor() {
    this.#loop.enable();
  }

  close(): void {
    this.#loop.disable();
  }

  countCall(call: CountedCall): void {
    const { serverPath, outcome, ms } = call;
    const isKnown = this.#calls.has(serverPath) || this.#calls.size < mostServers;
    const path = isKnown ? serverPath : otherServers;
    const ofServer = this.#calls.get(path) ?? new Map<CallOutcome, number>();
    this.#calls.set(path, ofServer);
    ofServer.set(outcome, (ofServer.get(outcome) ?? 0) + 1);
    const latencies = this.#latencies.get(outcome) ?? new Durations(boundsSeconds);
    this.#latencies.set(outcome, latencies);
    latencies.add(ms / 1000);
    this.#countOperation(call);
  }

  #countOperation({ method = other, errorType = '', ms }: CountedCall): void {
    const name = knownMethods.has(method) ? method : other;
    const isCode = /^-?\d+$/.test(errorType);
    const type = isCode && !knownCodes.has(errorType) ? other : errorType;
    const ofMethod = this.#operations.get(name) ?? new Map<string, Durations>();
    this.#operations.set(name, ofMethod);
    const durations = ofMethod.get(type) ?? new Durations(operationBoundsSeconds);
    ofMethod.set(type, durations);
    durations.add(ms / 1000);
  }

  countRefusal(code: RefusalCode): void {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1);
  }

  /** All metrics as text. Values of the event loop cover the time since the previous call. */
  async text({ version, gauges, probes }: MetricsPorts): Promise<string> {
    const { database, nats } = probes;
    const answers = [databaseLines(database), ...(nats ? [natsLines(nats)] : [])];
    return [
      ...family('latchkey_info', 'gauge', 'The version of this process.', [['', { version }, 1]]),
      ...this.#callLines(),
      ...family(
        'latchkey_refusals_total',
        'counter',
        'Calls that the gateway refused or that failed, by error code.',
        [...this.#refusals].map(([code, count]) => ['', { code }, count]),
      ),
      ...gauges.flatMap(gaugeLines),
      ...(await Promise.all(answers)).flat(),
      ...this.#processLines(),
      '',
    ].join('\n');
  }

  #callLines(): string[] {
    const calls = [...this.#calls].flatMap(([path, counts]) => {
      const [organization = '', server = ''] =
        path === otherServers ? [otherServers, otherServers] : path.split('/');
      return [...counts].map(([outcome, count]): Sample => [
        '',
        { organization, server, outcome },
        count,
      ]);
    });
    const latencies = outcomes.flatMap(
      (outcome) => this.#latencies.get(outcome)?.samples({ outcome }) ?? [],
    );
    const operations = [...this.#operations].flatMap(([method, durations]) =>
      [...durations].flatMap(([type, found]) =>
        found.samples({ mcp_method_name: method, ...(type !== '' && { error_type: type }) }),
      ),
    );
    return [
      ...family(
        'latchkey_calls_total',
        'counter',
        `Calls that were let in, by server and outcome. After ${mostServers} servers, the others are counted together.`,
        calls,
      ),
      ...family(
        'latchkey_call_duration_seconds',
        'histogram',
        'Time from the arrival of a call to the end of its answer.',
        latencies,
      ),
      ...family(
        'mcp_server_operation_duration_seconds',
        'histogram',
        'The same by method and type of error, as OpenTelemetry names it. A tool that reports its failure is a tool_error.',
        operations,
      ),
    ];
  }

  #processLines(): string[] {
    const loop = this.#loop;
    const delay = (ns: number): number => (Number.isFinite(ns) ? ns / 1e9 : 0);
    const lags: Sample[] = [
      ['', { quantile: '0.5' }, delay(loop.percentile(50))],
      ['', { quantile: '0.99' }, delay(loop.percentile(99))],
      ['', { quantile: '1' }, delay(loop.max)],
    ];
    loop.reset();
    const before = this.#loopUse;
    this.#loopUse = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(this.#loopUse, before);
    const { user, system } = process.cpuUsage();
    return [
      ...family(
        'latchkey_event_loop_delay_seconds',
        'summary',
        'Delay of timers since the last scrape, which includes their resolution of 20 ms.',
        lags,
      ),
      ...family(
        'latchkey_event_loop_utilization',
        'gauge',
        'Share of the time since the last scrape in which the event loop was busy.',
        [['', {}, utilization]],
      ),
      ...family('process_cpu_seconds_total', 'counter', 'CPU time of this process.', [
        ['', {}, (user + system) / 1e6],
      ]),
      ...family('process_resident_memory_bytes', 'gauge', 'Resident memory of this process.', [
        ['', {}, process.memoryUsage.rss()],
      ]),
      ...family('process_start_time_seconds', 'gauge', 'When this process started.', [
        ['', {}, Math.round(performance.timeOrigin / 1000)],
      ]),
    ];
  }
}

type Probe = MetricsPorts['probes']['database'];

/** A suffix for the name of the metric, the labels, and the value. */
type Sample = readonly [suffix: string, labels: Readonly<Record<string, string>>, value: number];

async function databaseLines(probe: Probe): Promise<string[]> {
  const { isUp, seconds } = await timed(probe);
  return [
    ...family('latchkey_database_up', 'gauge', 'Whether the database answered just now.', [
      ['', {}, isUp],
    ]),
    ...family(
      'latchkey_database_probe_seconds',
      'gauge',
      'How long a query without work took just now, or how long it failed to answer.',
      [['', {}, seconds]],
    ),
  ];
}

async function natsLines(probe: Probe): Promise<string[]> {
  const { isUp, seconds } = await timed(probe);
  return [
    ...family('latchkey_nats_up', 'gauge', 'Whether NATS answered just now.', [['', {}, isUp]]),
    ...family(
      'latchkey_nats_probe_seconds',
      'gauge',
      'How long NATS took to answer just now, or how long it failed to.',
      [['', {}, seconds]],
    ),
  ];
}

async function timed(probe: Probe): Promise<{ isUp: 0 | 1; seconds: number }> {
  const startedAt = performance.now();
  const isUp = await probe().then(
    () => 1 as const,
    () => 0 as const,
  );
  return { isUp, seconds: (performance.now() - startedAt) / 1000 };
}

function gaugeLines({ name, help, read, label = '', isCounter = false }: Gauge): string[] {
  const found = read();
  const samples: Sample[] =
    typeof found === 'number'
      ? [['', {}, found]]
      : Object.entries(found).map(([value, count]) => ['', { [label]: value }, count]);
  return family(name, isCounter ? 'counter' : 'gauge', help, samples);
}

function family(
  name: string,
  type: 'counter' | 'gauge' | 'histogram' | 'summary',
  help: string,
  samples: readonly Sample[],
): string[] {
  if (samples.length === 0) return [];
  const lines = samples.map(([suffix, labels, value]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
    return `${name}${suffix}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`;
  });
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
