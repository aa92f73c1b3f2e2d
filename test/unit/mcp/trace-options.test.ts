import { expect, test } from 'vitest';

import { readTraceOptions } from '#mcp/trace-options';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };

test.for([
  {},
  { OTEL_SERVICE_NAME: 'latchkey', OTEL_TRACES_SAMPLER: 'nonsense' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' },
  { ...endpoint, OTEL_SDK_DISABLED: 'True' },
  { ...endpoint, OTEL_TRACES_EXPORTER: 'none' },
])('trace options: %j leaves traces off', (env) => {
  expect(readTraceOptions(env)).toEqual({ outcome: 'off' });
});

test('trace options: an endpoint alone keeps what the caller keeps, and all that has no caller', () => {
  const options = { serviceName: undefined, sampler: 'parentbased_always_on', ratio: 1 };

  expect(readTraceOptions(endpoint)).toEqual({ outcome: 'on', options });
});

test('trace options: service name, sampler and ratio come from their variables', () => {
  const env = {
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector.example/v1/traces',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_SERVICE_NAME: 'gateway-eu',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.25',
  };

  const options = { serviceName: 'gateway-eu', sampler: 'traceidratio', ratio: 0.25 };
  expect(readTraceOptions(env)).toEqual({ outcome: 'on', options });
});

test.for<[Record<string, string>, string]>([
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'dana:hunter2@collector' },
    'OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https URL',
  ],
  [
    { ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
    "OTEL_EXPORTER_OTLP_PROTOCOL 'grpc' is not supported",
  ],
  [
    { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf' },
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL 'http/protobuf' is not supported",
  ],
  [{ ...endpoint, OTEL_TRACES_SAMPLER: 'some' }, "OTEL_TRACES_SAMPLER 'some' is not known"],
  ...['2', '-0.1', 'half'].map((ratio): [Record<string, string>, string] => [
    { ...endpoint, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: ratio },
    `OTEL_TRACES_SAMPLER_ARG '${ratio}' is not a number from 0 to 1`,
  ]),
])('trace options: %j is refused', ([env, message]) => {
  expect(readTraceOptions(env)).toMatchObject({ outcome: 'unusable', message });
});
