/** The ways to sample spans, as `OTEL_TRACES_SAMPLER` names them. */
const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

export type SamplerName = (typeof samplers)[number];

/** The trace settings in the standard environment variables. The exporter itself reads the variables about its endpoint. */
export interface TraceOptions {
  readonly serviceName: string | undefined;
  readonly sampler: SamplerName;
  /** From 0 to 1. */
  readonly ratio: number;
}

export type TraceChoice =
  | { readonly outcome: 'off' }
  | { readonly outcome: 'on'; readonly options: TraceOptions }
  /** `message` names the variable. It never contains a value that may be a secret. */
  | { readonly outcome: 'unusable'; readonly message: string; readonly hint: string };

const endpointVariables = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
const protocolVariables = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'];

/**
 * Whether and how to send traces. Off unless an endpoint is set. An empty variable counts as absent.
 *
 * OpenTelemetry specification, "Environment Variable Specification" and "OpenTelemetry Protocol Exporter"
 */
export function readTraceOptions(env: Readonly<Record<string, string | undefined>>): TraceChoice {
  const of = (name: string) => env[name]?.trim() || undefined;
  const isDisabled = of('OTEL_SDK_DISABLED')?.toLowerCase() === 'true';
  const endpointName = endpointVariables.find((name) => of(name) !== undefined);
  if (isDisabled || endpointName === undefined || of('OTEL_TRACES_EXPORTER') === 'none') {
    return { outcome: 'off' };
  }
  const unusable = (message: string, hint: string) =>
    ({ outcome: 'unusable', message, hint }) as const;
  if (!/^https?:$/.test(URL.parse(of(endpointName) ?? '')?.protocol ?? '')) {
    return unusable(
      `${endpointName} is not an http or https URL`,
      'write it as http://127.0.0.1:4318',
    );
  }
  const protocolName = protocolVariables.find((name) => of(name) !== undefined) ?? '';
  const protocol = of(protocolName) ?? 'http/json';
  if (protocol !== 'http/json') {
    return unusable(
      `${protocolName} '${protocol}' is not supported`,
      'set it to http/json, which collectors take on port 4318, or leave it out',
    );
  }
  const name = of('OTEL_TRACES_SAMPLER') ?? 'parentbased_always_on';
  const sampler = samplers.find((known) => known === name);
  if (!sampler) {
    return unusable(
      `OTEL_TRACES_SAMPLER '${name}' is not known`,
      `it is one of ${samplers.join(', ')}`,
    );
  }
  const ratioText = of('OTEL_TRACES_SAMPLER_ARG') ?? '1';
  const ratio = Number(ratioText);
  if (sampler.endsWith('traceidratio') && !(ratio >= 0 && ratio <= 1)) {
    return unusable(
      `OTEL_TRACES_SAMPLER_ARG '${ratioText}' is not a number from 0 to 1`,
      'write it as 0.1 to keep one trace in ten',
    );
  }
  const options = { serviceName: of('OTEL_SERVICE_NAME'), sampler, ratio };
  return { outcome: 'on', options };
}
