import type { ShownKey } from '#administration/shown-key';
import type { ShownServer } from '#administration/shown-server';
import type { EpochSeconds } from '#clock/clock';
import { shownName } from '#pages/plain-text';
import type { Table } from '#pages/table';
import { callWords, msWords, shareWords } from '#pages/usage-words';
import type { UsageSum } from '#usage/usage-sum';
import type { RefusedEvent } from './overview-facts.ts';
import { serverPath } from './server-tabs.ts';

/** Servers with what happened at each during the last day. */
export function endpointTable(
  servers: readonly ShownServer[],
  usage: ReadonlyMap<string, UsageSum>,
  {
    base,
    now,
    action,
  }: {
    base: string;
    now: EpochSeconds;
    action: { text: string; href: string } | undefined;
  },
): Table {
  const columns = ['Server', 'Endpoint', 'Calls', 'Errors', 'p90'].map((text) => ({ text }));
  const rows = servers.map((server) => {
    const { id, organization, name, endpoint, disabledAt } = server;
    const total = usage.get(id);
    const badges = disabledAt === null ? [] : [{ text: 'disabled', tone: 'care' } as const];
    const href = serverPath(organization, name);
    const calls = total?.calls ?? 0;
    const values = [callWords(calls), shareWords(total?.errors ?? 0, calls), msWords(total?.p90)];
    return {
      id,
      isOver: disabledAt !== null,
      cells: [
        { kind: 'name', text: name, href, badges } as const,
        { kind: 'id', text: base + endpoint } as const,
        ...values.map((text) => ({ kind: 'text', text }) as const),
      ],
    };
  });
  const text = 'No servers yet. A server is one MCP endpoint that assistants call.';
  return { caption: 'Endpoints and their last day', columns, rows, empty: { text, action }, now };
}

/** Active keys that are older than the ninety days after which one is to be replaced. */
export function oldKeyTable(
  organization: string,
  keys: readonly ShownKey[],
  now: EpochSeconds,
): Table {
  return {
    caption: 'API keys older than 90 days',
    columns: ['Key', 'Server', 'Age', 'Last used'].map((text) => ({ text })),
    rows: keys.map(({ id, name, server, ageDays, lastUsedAt }) => {
      const href = server === null ? undefined : `${serverPath(organization, server)}/keys`;
      return {
        id,
        cells: [
          { kind: 'name', text: shownName(name), ...(href !== undefined && { href }) } as const,
          { kind: 'text', text: server ?? '' } as const,
          { kind: 'text', text: `${ageDays} days` } as const,
          { kind: 'time', at: lastUsedAt ?? undefined, otherwise: 'never' } as const,
        ],
      };
    }),
    empty: { text: 'None. Keys appear here 90 days after they were made.' },
    now,
  };
}

/** What was refused, the newest first. */
export function refusalTable(events: readonly RefusedEvent[], now: EpochSeconds): Table {
  return {
    caption: 'What was refused lately',
    columns: ['What', 'On', 'Who', 'When'].map((text) => ({ text })),
    rows: events.map(({ at, actor, action, target }, place) => ({
      id: `refusal-${place}`,
      cells: [
        { kind: 'name', text: shownName(action) },
        { kind: 'text', text: shownName(target ?? '–') },
        { kind: 'text', text: shownName(actor) },
        { kind: 'time', at, otherwise: '' },
      ],
    })),
    empty: { text: 'Nothing was refused.' },
    now,
  };
}
