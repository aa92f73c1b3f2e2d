import { sql } from 'kysely';
import type { Gateway } from '#gateway/gateway';
import type { Log } from '#log/log';
import type { UsageRecorder } from '#usage/last-uses';
import type { AgentTunnels } from '#upstreams/tunnel/agent-tunnels';
import type { CallMeter } from '#usage/call-meter';
import type { Gauge, Metrics } from '#metrics/metrics';
import { type MetricsAddress, serveMetrics } from '#metrics/serve-metrics';
import type { NodeRegistry } from '#nodes/node-registry';
import type { RemoteNodes } from './open-nodes.ts';
import type { OpenActivity } from './open-records.ts';
import type { Closers } from './closers.ts';
import type { Stores } from './stores.ts';

const probeMs = 2000;

interface MetricsSources {
  readonly version: string;
  readonly stores: Stores;
  readonly nodes: NodeRegistry | undefined;
  readonly remote: Pick<RemoteNodes, 'probe'> | undefined;
  readonly gateway: Gateway;
  readonly tunnels: AgentTunnels;
  readonly meter: CallMeter;
  readonly usage: UsageRecorder;
  readonly activity: OpenActivity | undefined;
  readonly log: Log;
}

/** Serves the metrics until the server closes. @returns their URL */
export async function openMetrics(
  metrics: Metrics,
  address: MetricsAddress,
  sources: MetricsSources,
  closers: Closers,
): Promise<string> {
  const { version, stores, remote, log } = sources;
  const probeNats = remote?.probe;
  const ports = {
    version,
    gauges: gaugesOf(sources),
    probes: {
      database: () => withinTime(sql`select 1`.execute(stores.db)),
      ...(probeNats && { nats: () => withinTime(probeNats()) }),
    },
  };
  const served = await serveMetrics(
    address,
    () => metrics.text(ports),
    (err) => log.error({ err }, 'metrics not served'),
  );
  closers.push(() => served.close());
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `http://${host}:${served.port}/metrics`;
}

function gaugesOf(sources: MetricsSources): Gauge[] {
  const { stores, nodes, gateway, tunnels, meter, usage, activity } = sources;
  const gauges: Gauge[] = [
    {
      name: 'latchkey_sessions',
      help: 'MCP sessions of this process.',
      read: () => gateway.counts().sessions,
    },
    {
      name: 'latchkey_open_calls',
      help: 'Calls and streams whose answer has not ended.',
      read: () => gateway.counts().openCalls,
    },
    {
      name: 'latchkey_agent_tunnels',
      help: 'Tunnels of agents to this process.',
      read: () => tunnels.count,
    },
    {
      name: 'latchkey_queue_length',
      help: 'What waits: questions and queries for the database, counts and last uses to be written.',
      label: 'queue',
      read: () => ({
        ...stores.waiting(),
        call_counts: meter.pending,
        last_uses: usage.pending,
        ...(activity && { calls: activity.calls.pending }),
      }),
    },
    ...(activity ? [droppedCalls(activity)] : []),
  ];
  if (!nodes) return gauges;
  return gauges.concat({
    name: 'latchkey_clock_skew_seconds',
    help: 'By how much the clock of this node is ahead of the clock of the database.',
    read: () => nodes.clockSkewMs / 1000,
  });
}

function droppedCalls({ calls, contentMemory, output }: OpenActivity): Gauge {
  return {
    name: 'latchkey_calls_dropped_total',
    help: 'Calls that Activity lacks, arguments and results that it lacks, and lines that --call-log-output lacks, because too much waited to be written.',
    label: 'part',
    isCounter: true,
    read: () => ({
      calls: calls.dropped,
      contents: contentMemory.refused,
      ...(output && { output: output.dropped }),
    }),
  };
}

/** A scrape must not wait for a database, or for NATS, if it does not answer. */
async function withinTime(answer: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), probeMs);
  });
  try {
    await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
    answer.catch(() => undefined);
  }
}
