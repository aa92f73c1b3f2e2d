import { expect, test } from 'vitest';
import { Metrics } from '#server/metrics/metrics';
import { serveMetrics } from '#server/metrics/serve-metrics';

const ports = { version: '1.2.3', gauges: [], probes: { database: () => Promise.resolve() } };
const call = { serverPath: 'acme/sales', outcome: 'ok', ms: 12 } as const;

const series = (text: string, name: string) =>
  text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));

test('metrics: calls are counted by organization, server and outcome', async () => {
  using metrics = opened();
  metrics.countCall(call);
  metrics.countCall(call);
  metrics.countCall({ ...call, outcome: 'tool-error' });

  const text = await metrics.text(ports);

  expect(series(text, 'latchkey_calls_total')).toEqual([
    'latchkey_calls_total{organization="acme",server="sales",outcome="ok"} 2',
    'latchkey_calls_total{organization="acme",server="sales",outcome="tool-error"} 1',
  ]);
  expect(series(text, 'latchkey_info')).toEqual(['latchkey_info{version="1.2.3"} 1']);
});

test('metrics: the latency histogram is cumulative, and its count is the last bucket', async () => {
  using metrics = opened();
  for (const ms of [1, 5, 6, 40, 120_000]) metrics.countCall({ ...call, ms });

  const text = await metrics.text(ports);

  const buckets = series(text, 'latchkey_call_duration_seconds_bucket');
  expect(buckets).toHaveLength(14);
  expect(buckets.slice(0, 4).map((line) => line.split(' ')[1])).toEqual(['2', '3', '3', '4']);
  expect(buckets.at(-1)).toBe('latchkey_call_duration_seconds_bucket{outcome="ok",le="+Inf"} 5');
  expect(series(text, 'latchkey_call_duration_seconds_count')).toEqual([
    'latchkey_call_duration_seconds_count{outcome="ok"} 5',
  ]);
  expect(series(text, 'latchkey_call_duration_seconds_sum')).toEqual([
    'latchkey_call_duration_seconds_sum{outcome="ok"} 120.052',
  ]);
});

test('metrics: durations are counted by method and type of error, in the buckets of the conventions for MCP', async () => {
  using metrics = opened();
  const method = 'tools/call';
  for (const ms of [10, 11, 250_000]) metrics.countCall({ ...call, method, ms });
  metrics.countCall({ ...call, outcome: 'tool-error', method, errorType: 'tool_error' });
  metrics.countCall({ ...call, method: 'tools/list' });

  const text = await metrics.text(ports);

  const name = 'mcp_server_operation_duration_seconds';
  const counts = series(text, `${name}_bucket`)
    .filter((line) => line.startsWith(`${name}_bucket{mcp_method_name="tools/call",le=`))
    .map((line) => /le="(.*)"\} (\d+)$/.exec(line)?.slice(1).join(': '));
  expect(counts).toEqual([
    '0.01: 1',
    ...['0.02', '0.05', '0.1', '0.2', '0.5', '1', '2', '5', '10', '30', '60', '120'].map(
      (bound) => `${bound}: 2`,
    ),
    '300: 3',
    '+Inf: 3',
  ]);
  expect(series(text, `${name}_count`)).toEqual([
    `${name}_count{mcp_method_name="tools/call"} 3`,
    `${name}_count{mcp_method_name="tools/call",error_type="tool_error"} 1`,
    `${name}_count{mcp_method_name="tools/list"} 1`,
  ]);
  expect(series(text, `${name}_sum`)[0]).toBe(`${name}_sum{mcp_method_name="tools/call"} 250.021`);
});

test('metrics: methods and codes that anybody could make up make no series of their own', async () => {
  using metrics = opened();
  for (let n = 0; n < 50; n += 1) {
    metrics.countCall({ ...call, method: `made/up${n}`, errorType: `-3210${n}` });
  }
  metrics.countCall({ ...call, method: undefined, errorType: '-32601' });

  const counts = series(await metrics.text(ports), 'mcp_server_operation_duration_seconds_count');

  expect(counts).toEqual([
    'mcp_server_operation_duration_seconds_count{mcp_method_name="_OTHER",error_type="_OTHER"} 50',
    'mcp_server_operation_duration_seconds_count{mcp_method_name="_OTHER",error_type="-32601"} 1',
  ]);
});

test('metrics: after a thousand servers, the calls of others are counted together', async () => {
  using metrics = opened();
  for (let n = 0; n < 1500; n += 1) metrics.countCall({ ...call, serverPath: `acme/s${n}` });
  metrics.countCall({ ...call, serverPath: 'acme/s1' });

  const counts = series(await metrics.text(ports), 'latchkey_calls_total');

  expect(counts).toHaveLength(1001);
  expect(counts).toContain(
    'latchkey_calls_total{organization="other",server="other",outcome="ok"} 500',
  );
  expect(counts).toContain('latchkey_calls_total{organization="acme",server="s1",outcome="ok"} 2');
});

test('metrics: refusals are counted by code, and gauges are read at each scrape', async () => {
  using metrics = opened();
  metrics.countRefusal('bad_credential');
  metrics.countRefusal('bad_credential');
  let waiting = 3;
  const gauges = [
    { name: 'queue', help: 'What waits.', label: 'of', read: () => ({ 'a "b"\\\n': waiting }) },
    { name: 'one', help: 'One.', read: () => 1 },
  ];
  await metrics.text({ ...ports, gauges });
  waiting = 4;

  const text = await metrics.text({ ...ports, gauges });

  expect(series(text, 'latchkey_refusals_total')).toEqual([
    'latchkey_refusals_total{code="bad_credential"} 2',
  ]);
  expect(series(text, 'queue')).toEqual(['queue{of="a \\"b\\"\\\\\\n"} 4']);
  expect(series(text, 'one')).toEqual(['one 1']);
});

test('metrics: a database that does not answer is reported as down', async () => {
  using metrics = opened();

  const database = () => Promise.reject(new Error('gone'));

  const text = await metrics.text({ ...ports, probes: { database } });

  expect(series(text, 'latchkey_database_up')).toEqual(['latchkey_database_up 0']);
  expect(text).not.toContain('gone');
});

test('metrics: NATS is reported where there is one, up or down, beside the database', async () => {
  using metrics = opened();
  const { database } = ports.probes;
  const down = () => Promise.reject(new Error('gone'));
  const upAndTime = (text: string) => [
    ...series(text, 'latchkey_nats_up'),
    series(text, 'latchkey_nats_probe_seconds').length,
  ];

  const without = await metrics.text(ports);
  const answering = await metrics.text({ ...ports, probes: { database, nats: database } });
  const silent = await metrics.text({ ...ports, probes: { database, nats: down } });

  expect(without).not.toContain('latchkey_nats');
  expect(upAndTime(answering)).toEqual(['latchkey_nats_up 1', 1]);
  expect(upAndTime(silent)).toEqual(['latchkey_nats_up 0', 1]);
  expect(series(silent, 'latchkey_database_up')).toEqual(['latchkey_database_up 1']);
});

test('metrics: every family has its help and type once, and every sample is a number', async () => {
  using metrics = opened();
  metrics.countCall(call);
  metrics.countRefusal('fault');

  const lines = (await metrics.text(ports)).trimEnd().split('\n');

  const types = lines.filter((line) => line.startsWith('# TYPE '));
  expect(new Set(types.map((line) => line.split(' ')[2])).size).toBe(types.length);
  for (const line of lines.filter((sample) => !sample.startsWith('#'))) {
    expect(line).toMatch(
      /^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?\d+(\.\d+)?(e-?\d+)?$/,
    );
  }
});

test('metrics: only GET /metrics is answered, uncached', async () => {
  const served = await serveMetrics(
    { host: '127.0.0.1', port: 0 },
    async () => 'text\n',
    () => undefined,
  );
  const base = `http://127.0.0.1:${served.port}`;

  const answer = await fetch(`${base}/metrics?x=1`);
  const others = [
    await fetch(`${base}/`),
    await fetch(`${base}/metrics/../api`),
    await fetch(`${base}/metrics`, { method: 'POST', body: 'x' }),
  ];

  expect([answer.status, await answer.text()]).toEqual([200, 'text\n']);
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(others.map(({ status }) => status)).toEqual([404, 404, 405]);
  await served.close();
});

/** Metrics whose event loop monitor ends with the scope. */
function opened(): Metrics & Disposable {
  const metrics = new Metrics();
  return Object.assign(metrics, { [Symbol.dispose]: () => metrics.close() });
}
