import type { Overview } from '#contract';

/** What the tray shows without being opened. */
export type TrayFace = {
  icon: 'well' | 'attention' | 'trouble' | 'offline';
  /** The same in words, for the pointer that rests there and for a screen reader. */
  tooltip: string;
};

/** The worst of the connections: what only a person can mend comes before what mends itself. */
export function trayFace({ known, connections, signIns, trouble }: Overview): TrayFace {
  if (trouble) return { icon: 'trouble', tooltip: `Latchkey: ${trouble.problem}` };
  const waiting = signIns.find(({ phase }) => phase === 'waiting');
  if (waiting)
    return { icon: 'attention', tooltip: `Latchkey: waiting for your sign-in to ${waiting.name}` };
  const needy = connections.filter(
    ({ state }) => state === 'needs_sign_in' || state === 'needs_key',
  );
  const troubled = connections.filter(({ state }) => state === 'trouble');
  const away = connections.filter(({ state }) => state === 'offline');
  if (troubled.length > 0)
    return { icon: 'trouble', tooltip: `Latchkey: trouble with ${listed(troubled)}` };
  if (needy.length > 0)
    return { icon: 'attention', tooltip: `Latchkey: ${listed(needy)} ${needs(needy)} you` };
  if (away.length > 0)
    return { icon: 'offline', tooltip: `Latchkey: ${listed(away)} cannot be reached` };
  if (!known) return { icon: 'well', tooltip: 'Latchkey: loading connections' };
  if (connections.length === 0) return { icon: 'well', tooltip: 'Latchkey: no connections yet' };
  return { icon: 'well', tooltip: 'Latchkey: all connections are ready' };
}

function listed(some: readonly { name: string }[]): string {
  const [first, second] = some;
  if (some.length === 1) return first?.name ?? '';
  if (some.length === 2) return `${first?.name} and ${second?.name}`;
  return `${some.length} connections`;
}

function needs(some: readonly unknown[]): string {
  return some.length === 1 ? 'needs' : 'need';
}
