import type { ConnectionView } from '#proxy/connections/accounts-service';

const hour = 3600;
const now = () => Math.floor(Date.now() / 1000);

/** A connection as the accounts service lists it, signed in and working by default. */
export function seenConnection(given: Partial<ConnectionView> = {}): ConnectionView {
  const name = given.name ?? 'library';
  return {
    name,
    url: `https://cloud.example.com/mcp/acme/${encodeURIComponent(name)}`,
    source: { file: '/home/dana/.config/latchkey/connections.json', own: true },
    as: 'person',
    state: 'ready',
    issuer: 'https://cloud.example.com',
    scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
    expiresAt: now() + hour - 60,
    renewable: true,
    proxies: [],
    startedBy: [],
    ...given,
  };
}

/** Three connections that share the sign-in of a company, and one that does not. */
export function companyConnections(): ConnectionView[] {
  const company = {
    issuer: 'https://id.acme.example/tenants/8f3c2d1e-5b7a-4c60-9e11-2a7d1f0c4b55/v2.0',
    clientId: 'latchkey-native',
    signedIn: false,
    reason:
      'the company sign-in of dana@acme.example is over: it expired, and the provider does not renew it',
    renewable: false,
  };
  const waiting = { state: 'needs_sign_in' as const, reason: 'not signed in', renewable: false };
  return [
    ...['crm', 'support', 'finance'].map((name) => {
      const { expiresAt: _, issuer: __, ...plain } = seenConnection({ name, company });
      return Object.assign(plain, waiting);
    }),
    seenConnection({ signedInAs: 'dana@example.org' }),
  ];
}

/** One connection in each state. */
export function everyState(): ConnectionView[] {
  const url = (server: string) => `https://cloud.example.com/mcp/acme/${server}`;
  const proxy = (name: string, state: ConnectionView['proxies'][number]['state']) => ({
    pid: 4711,
    startedAt: now() - hour,
    version: '0.1.0',
    name,
    url: url(name),
    assistant: { name: 'Claude Desktop', version: '1.4.0' },
    state,
    sinceAt: now() - hour,
    lastCall: { at: now() - 150, method: 'tools/call', outcome: 'ok' as const, durationMs: 83 },
  });
  const secret = {
    kind: 'api_key' as const,
    storedAt: now() - 97 * 24 * hour,
    old: true,
    onTrial: false,
    dashboardUrl: 'https://cloud.example.com/servers/acme/nightly/keys',
  };
  const keyed = { as: 'api_key' as const, renewable: false, scopes: [], secret };
  const { expiresAt: _, issuer: __, ...plain } = seenConnection();
  return [
    seenConnection({ startedBy: ['claude-desktop'], proxies: [proxy('library', 'ready')] }),
    {
      ...plain,
      name: 'sales',
      url: url('sales'),
      renewable: false,
      scopes: [],
      state: 'needs_sign_in',
      reason: 'Not signed in. An assistant is waiting for you.',
      proxies: [proxy('sales', 'needs_sign_in')],
      startedBy: ['claude-desktop', 'cursor'],
    },
    { ...plain, ...keyed, name: 'nightly', url: url('nightly'), startedBy: ['cursor'] },
    {
      ...plain,
      ...keyed,
      name: 'warehouse',
      url: url('warehouse'),
      as: 'client',
      secret: { ...secret, kind: 'client_secret', old: false, storedAt: now() - 9 * 24 * hour },
      state: 'trouble',
      reason: 'The server refuses the client: it was revoked on 3 November.',
    },
    seenConnection({
      name: 'wiki',
      url: 'https://wiki.example.org/mcp',
      state: 'offline',
      reason: 'wiki.example.org cannot be reached. Latchkey keeps retrying.',
      scopes: [],
    }),
  ];
}
