import type { UpstreamAccess } from '#server/db/upstream-access';

const url = 'https://mcp.example/mcp';

/** How each person reaches the upstream of the server `srv_web` with an account of their own. */
export const someUpstreamAccess: UpstreamAccess = {
  id: 'upa_1',
  targetId: 'target_web',
  endpointId: 'srv_web',
  kind: 'authorization_code',
  url,
  metadata: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
  resource: url,
  clientId: 'latchkey',
  sealedClientSecret: undefined,
  scopes: [],
  vouchedHosts: [],
  createdAt: 1,
};
