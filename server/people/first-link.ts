import type { Clock } from '#clock/clock';
import { makeLink } from './one-time-link.ts';
import type { OneTimeLinkStore } from './one-time-link-store.ts';
import type { UserStore } from './user.ts';

/** The path of a link that makes the first owner; `undefined` when somebody can sign in already. */
export async function firstLink({
  users,
  links,
  clock,
}: {
  users: Pick<UserStore, 'hasAny'>;
  links: Pick<OneTimeLinkStore, 'add'>;
  clock: Clock;
}): Promise<string | undefined> {
  if (await users.hasAny()) return undefined;
  return makeLink({ type: 'set-up' }, { links, clock });
}
