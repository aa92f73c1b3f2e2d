import type { Clock } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { LinkPurpose, OneTimeLinkStore } from './one-time-link-store.ts';
import { randomToken } from './start-session.ts';

const lifeSeconds = 60 * 60;

/** The path of a new link, good once and for an hour; links for the same purpose before it are over. */
export async function makeLink(
  purpose: LinkPurpose,
  { links, clock }: { links: Pick<OneTimeLinkStore, 'add'>; clock: Clock },
): Promise<string> {
  const linkToken = randomToken();
  await links.add(hashSecret(linkToken), purpose, clock.now() + lifeSeconds);
  return `/${purpose.type}/${linkToken}`;
}
