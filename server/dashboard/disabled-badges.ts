import type { Badge } from '#pages/table';

/** What a list and a page say of a server that serves nobody. */
export function disabledBadges({ disabledAt }: { disabledAt: number | null }): readonly Badge[] {
  return disabledAt === null ? [] : [{ text: 'disabled', tone: 'care' }];
}
