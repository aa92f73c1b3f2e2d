// Requests to upstreams that Latchkey makes on its own, not for a call: for their health, for a page that lists tools, and to try a key.

import type { Tracing } from 'latchkey-mcp/tracing';
import type { Clock } from '#model/clock';
import type { ServerRecord, Target } from '#model/endpoints';
import { SlidingWindow } from '#model/sliding-window';
import { takesCredentials, upstreamLocation } from '#model/upstream-kinds';
import { asksForDefinitions } from '#gateway/adapted-upstream';
import type { GatewayPorts } from '#gateway/gateway-parts';
import { PlainLinks } from '#gateway/plain-calls';
import { throughSteps, type Upstream, type UpstreamRequest } from '#gateway/upstream';
import type { PinningPorts } from '#tools/pinning';
import type { Collections } from '#upstreams/collection/collection';
import type { CredentialedTarget } from '#upstreams/credentials/access';
import {
  authorizationStep,
  type UpstreamAuthorizations,
} from '#upstreams/credentials/authorization';
import { fixedHeaderStep, type FixedHeaderOptions } from '#upstreams/credentials/fixed-headers';
import { type PersonKeys, requiresKey, triedKeyStep } from '#upstreams/credentials/person-keys';
import type { ProbedUpstream, UpstreamHealth } from '#upstreams/health';
import {
  inspect,
  type Inspected,
  type Inspection,
  type KeyTrial,
  mostTools,
  tryCredentials,
} from '#upstreams/inspect';
import { openUpstream, type UpstreamResources } from '#upstreams/open-upstream';
import type { SkillFolders } from '#upstreams/skills/skills';

/** The parts that requests to the upstreams of all servers pass through. */
export interface Routes {
  readonly resources: UpstreamResources;
  readonly collections: Collections;
  readonly authorizations: UpstreamAuthorizations;
  readonly personKeys: PersonKeys;
  readonly fixedHeaders: FixedHeaderOptions;
  readonly skills: SkillFolders;
  readonly tracing: Tracing | undefined;
}

/** The first word of the owner of every session that Latchkey starts for a probe. */
export const probeName = 'probe';

export function isProbe(owner: string): boolean {
  return owner.startsWith(`${probeName} `);
}

/** The upstream of a target for a probe, with the target's own credentials or those of a person. */
export function probed(
  { resources, collections, authorizations, personKeys, fixedHeaders }: Routes,
  target: Target,
  owner: string,
  userId?: string,
): ProbedUpstream {
  const key = requiresKey(target) ? personKeys.of(target, userId) : undefined;
  const isMembers = target.upstream.kind === 'collection' && userId !== undefined;
  const open = isMembers
    ? collections.ofPerson(target, owner, userId)
    : openUpstream(target, owner, resources);
  const send: Upstream['send'] = (request) => open.send(request);
  if (!isCredentialed(target)) {
    const withoutToken = key && { send };
    const upstream = { send: throughSteps([key?.step], send) };
    return { upstream, name: target.name, withoutToken, forwardsCaller: false };
  }
  const { forwardsCaller = false, ...upstream } = target.upstream;
  // Without a person, no assertion about the caller can be sent.
  const silent = userId === undefined ? { ...target, upstream } : target;
  const caller = { userId, credentialId: probeName, scopes: [] };
  const required = authorizations.credentialsFor(silent, caller);
  const headers = fixedHeaderStep(target, fixedHeaders);
  return {
    upstream: {
      send: throughSteps([required && authorizationStep(required), key?.step, headers], send),
    },
    withoutToken: (required ?? key) && { send: throughSteps([headers], send) },
    forwardsCaller,
    name: new URL(upstream.url).host,
  };
}

/** How many keys a person may try within five minutes. */
const maxTrials = 10;

/** Tries keys, each over a link of its own. */
export function keyTrials(
  { resources, authorizations, fixedHeaders }: Routes,
  clock: Clock,
  left: GatewayPorts['left'],
): (server: ServerRecord, userId: string, key: string) => Promise<KeyTrial> {
  // Keeps people from guessing keys with the page.
  const trials = new SlidingWindow(clock, { seconds: 300, maxNames: 10_000 });
  return async ({ target }, userId, key) => {
    if (!requiresKey(target)) throw new TypeError('the server requires no key');
    const wait = trials.secondsUntilFree(userId, maxTrials);
    if (wait > 0) {
      return { outcome: 'failed', reason: `You tried many keys. Try again in ${wait} seconds.` };
    }
    trials.count(userId, maxTrials);
    const owner = `${probeName} ${target.id} key ${userId}`;
    const open = openUpstream(target, owner, resources);
    const credentialed = isCredentialed(target) ? target : undefined;
    const caller = { userId, credentialId: probeName, scopes: [] };
    const required = credentialed && authorizations.credentialsFor(credentialed, caller);
    const steps = [
      required && authorizationStep(required),
      triedKeyStep(target, key),
      credentialed && fixedHeaderStep(credentialed, fixedHeaders),
    ];
    const upstream = { send: throughSteps(steps, (request) => open.send(request)) };
    const links = new PlainLinks(clock);
    try {
      return await tryCredentials(
        {
          upstream,
          key: owner,
          place: upstreamLocation(target.upstream),
          name: 'url' in target.upstream ? new URL(target.upstream.url).host : target.name,
          timeoutMs: 15_000,
          tool: target.personKey.tool,
        },
        links,
      );
    } finally {
      await links.close();
      left(owner);
    }
  };
}

/** Inspects an upstream over a link of its own. */
export async function inspectOnce(
  inspected: Omit<Inspected, 'key' | 'timeoutMs' | 'wantsTools'>,
  clock: Clock,
): Promise<Inspection> {
  const links = new PlainLinks(clock);
  const all = { key: probeName, timeoutMs: 10_000, wantsTools: true };
  try {
    return await inspect({ ...inspected, ...all }, links);
  } finally {
    await links.close();
  }
}

/** Inspects the upstream of a server, and updates its health and pinned definitions with the answers. */
export function toolInspection(
  routes: Routes,
  clock: Clock,
  {
    health,
    left,
    watch,
    failed,
    pinned,
  }: { readonly health: UpstreamHealth } & Pick<GatewayPorts, 'left' | 'pinned'> & PinningPorts,
): (server: ServerRecord, userId: string) => Promise<Inspection> {
  return async ({ id, target }, userId) => {
    const owner = `${probeName} ${target.id} ${userId}`;
    const { upstream: plain, name } = probed(routes, target, owner, userId);
    const upstream = {
      send: async (request: UpstreamRequest) => {
        const answer = await plain.send(request);
        const asked = asksForDefinitions(request);
        // Tools are compared below, because people see withheld tools here, too.
        if (!asked || asked.method === 'tools/list') return answer;
        return pinned(answer, target, { ...asked, isForCaller: false });
      },
    };
    try {
      const place = upstreamLocation(target.upstream);
      const inspection = await inspectOnce({ upstream, name, place }, clock);
      await health.learn(id, inspection);
      const { tools } = inspection.outcome === 'connected' ? inspection : {};
      if (tools) {
        const isLast = tools.length < mostTools;
        await watch.look(target, { kind: 'tool', definitions: tools, isLast }).catch(failed);
      }
      return inspection;
    } finally {
      left(owner);
    }
  };
}

export function isCredentialed(target: Target): target is CredentialedTarget {
  return takesCredentials(target.upstream);
}
