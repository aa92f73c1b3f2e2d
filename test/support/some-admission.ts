import type { Endpoint, ServerRecord, Target } from '#server/model/endpoints';
import { type ToolCaller, ToolRights } from '#server/model/tool-rights';
import { allScopes } from '#server/model/scopes';
import type { Admission } from '#server/gateway/admission';

/** A target whose id differs from that of its endpoint. */
export function someTarget(but: Partial<Target> = {}): Target {
  return {
    id: 'target_sales',
    organization: 'acme',
    name: 'sales',
    upstream: { kind: 'demo' },
    hiddenTools: [],
    changedTools: 'flag',
    newTools: 'offer',
    offered: { withheld: {}, open: {}, readOnly: new Set() },
    ...but,
  };
}

interface SomeServer extends Partial<Endpoint> {
  readonly target?: Partial<Target>;
}

export function someServer({ target = {}, ...but }: SomeServer = {}): ServerRecord {
  const endpoint = { id: 'srv_sales', organization: 'acme', name: 'sales', ...but };
  const { id, organization, name } = endpoint;
  return {
    createdAt: 1_700_000_000,
    ...endpoint,
    target: someTarget({ id: `target_of_${id}`, organization, name, ...target }),
  };
}

/** A caller that acts for no person and is limited to no tools. */
export const ofNoPerson: ToolCaller = { selections: [] };

/** The rights of a caller to a target. */
export function rightsTo(but: Partial<Target> = {}, caller: ToolCaller = ofNoPerson): ToolRights {
  return new ToolRights(someTarget(but), caller);
}

/** The admission of a caller with every scope; `but` changes some members. */
export function someAdmission(but: Partial<Admission> = {}): Admission {
  const { endpoint = someServer() } = but;
  return {
    principal: 'key:key_a',
    credential: { type: 'key', id: 'key_a' },
    scopes: allScopes,
    endpoint,
    rights: new ToolRights(endpoint.target, ofNoPerson),
    reference: 'key_a',
    now: () =>
      Promise.resolve({ scopes: allScopes, rights: new ToolRights(endpoint.target, ofNoPerson) }),
    access: { name: 'key key_a', isActive: () => Promise.resolve(true) },
    proved: { type: 'key', keyHash: 'hash' },
    ...but,
  };
}
