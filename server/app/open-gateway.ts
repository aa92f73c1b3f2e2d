import type { CountedRefusals } from '#audit/counted-refusals';
import { findServer } from '#db/servers';
import { EraAdapters } from '#gateway/era-adapters';
import { Gateway } from '#gateway/gateway';
import { auditedRefusal, type RefusalCode } from '#gateway/gateway-refusal';
import type { GatewayPorts } from '#gateway/gateway-parts';
import { isAllowedOrigin } from '#http/guards';
import type { Metrics } from '#metrics/metrics';
import type { AccessTokens } from '#oauth/access-tokens';
import type { MasterKey } from '#secrets/master-key';
import type { CallMeter } from '#usage/call-meter';
import type { UsageRecorder } from '#usage/last-uses';
import type { RemoteNodes } from './open-nodes.ts';
import { type openActivity, refusalNotWritten } from './open-records.ts';
import type { OpenUpstreams } from './open-upstreams.ts';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';
import type { Stores } from './stores.ts';
import type { Target } from '#model/endpoints';

/** The parts that both the gateway and the routes need. */
export interface SharedParts {
  readonly stores: Stores;
  readonly masterKey: MasterKey;
  readonly tokens: AccessTokens;
  readonly endpointUrl: (serverPath: string) => string;
  readonly upstreams: OpenUpstreams;
  readonly usage: UsageRecorder;
  readonly refusals: CountedRefusals;
  /** The links to other nodes, where nodes pass calls to each other. */
  readonly remote: RemoteNodes | undefined;
  readonly isOwner: boolean;
}

interface GatewayDependencies extends SharedParts {
  readonly meter: CallMeter;
  /** Absent if calls are not recorded. */
  readonly activity: ReturnType<typeof openActivity>;
  readonly metrics: Metrics | undefined;
  /** Names this process; `undefined` where no other one shares the database. */
  readonly instance: string | undefined;
}

export function openGateway(
  options: ServeOptions,
  parts: GatewayDependencies,
  closers: Closers,
): Gateway {
  const { base, clock, allowedOrigins } = options;
  const { stores, masterKey, tokens, upstreams, meter, activity, metrics, remote, instance } =
    parts;
  const gateway = new Gateway({
    base,
    maxBodyBytes: options.maxBodyBytes,
    endpointUrl: parts.endpointUrl,
    tokens,
    clock,
    used: (use, usedAt) => parts.usage.used(use, usedAt),
    note(call) {
      meter.note(call);
      upstreams.health.noteCall(call.targetId, call.outcome);
      metrics?.countCall(call);
    },
    ended: activity && ((call, begun, contents) => activity.calls.note(call, begun, contents)),
    contentMemory: activity?.contentMemory,
    begins:
      activity && options.callLog?.mode === 'required'
        ? (call) => activity.calls.begin(call)
        : undefined,
    recordsAll: options.callLog?.recordsAll,
    admissions: stores.admissions,
    mac: (text) => masterKey.mac('gateway', text),
    upstreamOf: upstreams.upstreamOf,
    pinned: upstreams.pinned,
    left: upstreams.left,
    tracing: options.tracing,
    eras: new EraAdapters(clock, instance),
    presentationOf: ({ organization, name }) => findServer(stores.db, organization, name),
    isAllowedOrigin: (origin) => isAllowedOrigin(origin, base, allowedOrigins),
    isElsewhere: parts.isOwner ? undefined : (server) => needsOwner(server, options),
    nodes:
      instance === undefined ? undefined : { instance, send: remote?.send, tell: remote?.tell },
    refused: noteRefusal(options, parts),
  });
  upstreams.openCollections(gateway);
  closers.push(() => gateway.close());
  return gateway;
}

const ownFaults: ReadonlySet<RefusalCode> = new Set(['fault', 'unavailable', 'not_recorded']);

/** Counts a refusal, audits it where its kind is audited, and logs it. */
function noteRefusal(
  { log }: ServeOptions,
  { metrics, refusals }: GatewayDependencies,
): GatewayPorts['refused'] {
  const notWritten = refusalNotWritten(log);
  return (refusal, request, principal) => {
    const { code, details } = refusal;
    metrics?.countRefusal(code);
    const { id } = request;
    const denied = auditedRefusal(refusal, request, principal);
    if (denied) refusals.note(denied).catch(notWritten);
    const level = ownFaults.has(code) ? 'error' : 'info';
    log[level]({ id, code, detail: details.detail, err: details.cause }, 'call refused');
  };
}

/** Whether only the owner of a shared folder can answer calls to a target: it has the tunnels, child processes and skills. */
function needsOwner(
  { organization, name, upstream }: Target,
  { skillFolders }: ServeOptions,
): boolean {
  return upstream.kind !== 'http' || (skillFolders?.has(`${organization}/${name}`) ?? false);
}
