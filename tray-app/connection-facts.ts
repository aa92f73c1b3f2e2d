import type { ConnectionView as Connection } from 'latchkey/accounts';
import type { ConnectionView } from '#contract';

/** A connection as the pages and the menu show it. */
export function connectionFacts(
  connection: Connection,
  titleOf: (assistant: string) => string,
): ConnectionView {
  const { name, url, source, as, state, reason = '', issuer, scopes = [] } = connection;
  const { signedInAs } = connection;
  const { expiresAt, renewable, proxies, startedBy, secret } = connection;
  const { account } = proxies.find((one) => one.account !== undefined) ?? {};
  const starting = proxies.length > 0 && proxies.every((one) => one.state === 'connecting');
  const asked = state === 'needs_sign_in' && as !== 'person' ? 'needs_key' : state;
  const dashboard = secret?.dashboardUrl ?? dashboardOf(url);
  const call = lastCall(connection);
  return {
    name,
    url,
    as,
    state: starting && state === 'ready' ? 'connecting' : asked,
    detail: state === 'ready' ? '' : reason,
    ...(account !== undefined && { account }),
    ...(signedInAs !== undefined && { signedInAs }),
    ...(issuer !== undefined && { issuer }),
    scopes: [...scopes],
    ...(expiresAt !== undefined && { tokenExpiresAt: expiresAt }),
    renewable,
    ...(call && { lastCall: call }),
    own: source.own,
    usedBy: [...new Set(proxies.map(assistantOf))],
    startedBy: startedBy.map(titleOf),
    rotates: secret !== undefined,
    ...(secret?.storedAt !== undefined && { keySince: secret.storedAt }),
    keyDue: secret?.old ?? false,
    oldKeyKept: secret?.onTrial ?? false,
    ...(dashboard !== undefined && { dashboard }),
  };
}

function lastCall({ proxies }: Connection): ConnectionView['lastCall'] {
  return proxies
    .flatMap((proxy) => {
      if (!proxy.lastCall) return [];
      const { at, method, outcome } = proxy.lastCall;
      return [{ at, method, outcome, assistant: assistantOf(proxy) }];
    })
    .sort((one, other) => other.at - one.at)[0];
}

/** What a person recognises of whoever started a proxy. */
function assistantOf({ assistant, pid }: Connection['proxies'][number]): string {
  return assistant?.name ?? `process ${pid}`;
}

/** The dashboard of a server of ours, told by the shape of its endpoints. */
function dashboardOf(url: string): string | undefined {
  const { origin, pathname } = URL.parse(url) ?? { origin: '', pathname: '' };
  return /^\/mcp\/[^/]+\/[^/]+$/.test(pathname) ? `${origin}/` : undefined;
}
