import type { AccountsService, ConnectionView as Connection } from 'latchkey/accounts';
import {
  connectionView,
  type ConnectionView,
  type MenuFailure,
  type Overview,
} from './contract.ts';
import { failureOf, type Report } from './outcome.ts';
import type { SignIns } from './sign-ins.ts';
import { notices, type Notice } from './state.ts';

export type LiveOverviewPorts = {
  accounts: Pick<AccountsService, 'assistants' | 'watch' | 'claimNotice'>;
  signIns: Pick<SignIns, 'views'>;
  startsAtLogin: () => boolean;
  menuFailure: () => MenuFailure | undefined;
  /** Called after every change. */
  changed: (overview: Overview) => void;
  notify: (notice: Notice) => void;
  report: Report;
  /** Resolves after `ms`, or as soon as `signal` aborts. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
};

/** The pause before the connections are read again after a failure. */
const retryMs = 5_000;

/** The overview that the tray and the windows show, kept up to date while the app runs. */
export function liveOverview(ports: LiveOverviewPorts) {
  const { accounts, signIns, startsAtLogin, menuFailure, changed, notify, report, sleep } = ports;
  let known = false;
  let connections: Overview['connections'] = [];
  let trouble: Overview['trouble'];
  let before: Overview | undefined;

  function now(): Overview {
    const failure = menuFailure();
    return {
      known,
      connections,
      signIns: signIns.views(),
      startAtLogin: startsAtLogin(),
      ...(trouble && { trouble }),
      ...(failure && { menuFailure: failure }),
    };
  }

  async function followOnce(signal: AbortSignal): Promise<void> {
    const titles = new Map((await accounts.assistants()).map(({ id, title }) => [id, title]));
    for await (const seen of accounts.watch(signal)) {
      connections = seen.map((one) => checkedView(one, (id) => titles.get(id) ?? id));
      known = true;
      trouble = undefined;
      const overview = now();
      changed(overview);
      for (const notice of notices(before, overview))
        if (await accounts.claimNotice(notice.name)) notify(notice);
      before = overview;
    }
  }

  return {
    now,
    /** Announces a change that the app itself has made: a sign-in, a setting. */
    touch: () => changed(now()),
    /** Follows the accounts service until `signal` aborts. A failure is shown, and the service is tried again. */
    async follow(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        try {
          await followOnce(signal);
        } catch (error) {
          const { problem, remedy } = failureOf(
            error,
            report,
            ...connections.map(({ name }) => name),
          );
          trouble = { problem, remedy };
          changed(now());
          await sleep(retryMs, signal);
        }
      }
    },
  };
}

/** A connection as it is shown. If its data is invalid, only its name and the problem are shown, and other connections as usual. */
function checkedView(
  connection: Connection,
  titleOf: (assistant: string) => string,
): ConnectionView {
  const view = toConnectionView(connection, titleOf);
  const problem = connectionView.safeParse(view).error?.issues[0]?.path.join('.');
  if (problem === undefined) return view;
  const { name, source } = connection;
  const reason = `its ${problem} is invalid`;
  const known = { name, url: '', source, as: 'person', renewable: false } as const;
  return toConnectionView(
    { ...known, state: 'trouble', reason, proxies: [], startedBy: [] },
    titleOf,
  );
}

/** A connection as the pages and the menu show it. */
export function toConnectionView(
  connection: Connection,
  titleOf: (assistant: string) => string,
): ConnectionView {
  const { name, url, source, as, state, reason = '', issuer, scopes = [] } = connection;
  const { signedInAs, company } = connection;
  const { expiresAt, renewable, proxies, startedBy, secret } = connection;
  const { account } = proxies.find((one) => one.account !== undefined) ?? {};
  const starting = proxies.length > 0 && proxies.every((one) => one.state === 'connecting');
  const needed = state === 'needs_sign_in' && as !== 'person' ? 'needs_key' : state;
  const dashboard = secret?.dashboardUrl ?? dashboardOf(url);
  const call = lastCall(connection);
  return {
    name,
    url,
    as,
    state: starting && state === 'ready' ? 'connecting' : needed,
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
    ...(company && { company }),
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

/** The assistant that started a proxy. */
function assistantOf({ assistant, pid }: Connection['proxies'][number]): string {
  return assistant?.name ?? `process ${pid}`;
}

/** The dashboard of a Latchkey server, which is recognized by the path of its endpoints. */
function dashboardOf(url: string): string | undefined {
  const { origin, pathname } = URL.parse(url) ?? { origin: '', pathname: '' };
  return /^\/mcp\/[^/]+\/[^/]+$/.test(pathname) ? `${origin}/` : undefined;
}
