// Says why a filter of the audit log or of Activity selects nothing, if one of its values does not exist, and suggests another value.

import { nearest } from 'latchkey-mcp/suggest';
import { auditSentences } from '#audit/sentences';
import { findOrganization } from '#db/organizations';
import { findMember, findUserByEmail, listMemberAddresses } from '#db/people';
import { findServer } from '#db/servers';
import type { Db } from '#db/transaction';
import { emailKey } from '#model/email';
import { displayName } from '#web/html';

/** The error in a filter, and the value that was probably meant. */
export interface EmptyFilter {
  readonly text: string;
  readonly meant?: string | undefined;
}

/** How many members' addresses are compared with the entered text. */
const mostCompared = 2000;

function shown(text: string): string {
  return displayName(text, 100);
}

/** The words that a page adds to an error about a person. */
interface PersonWords {
  /** Says how to find people who are no longer members. */
  readonly former: string;
  /** What can be entered besides an address; follows a comma. */
  readonly others?: string;
}

/**
 * The error in a person's address in a filter; `undefined` for the address of a member. It is the same whether or not the address has
 * an account elsewhere.
 */
export async function unknownPerson(
  typed: string,
  organization: string,
  { former, others }: PersonWords,
  db: Db,
): Promise<EmptyFilter | undefined> {
  const found = await findOrganization(db, organization);
  if (!found) return undefined;
  const wanted = emailKey(typed);
  const isWhole = wanted.includes('@');
  const user = isWhole ? await findUserByEmail(db, typed) : undefined;
  if (user && (await findMember(db, found.id, user.id))) return undefined;
  const addresses = await listMemberAddresses(db, found.id, mostCompared);
  const keys = new Map(addresses.map((one) => [isWhole ? emailKey(one) : localPart(one), one]));
  const close = keys.has(wanted) ? wanted : nearest(wanted, [...keys.keys()]);
  const text = isWhole
    ? `No member of this organization has the address ${shown(typed)}: check its spelling. ${former}`
    : `${shown(typed)} is not an e-mail address: enter a whole address${others === undefined ? '' : `, ${others}`}.`;
  return { text, meant: close === undefined ? undefined : keys.get(close) };
}

function localPart(address: string): string {
  return emailKey(address).split('@')[0] ?? '';
}

/** The error for an action that neither occurs in the log nor is known; otherwise `undefined`. */
export function unknownAction(
  action: string,
  occurring: readonly string[],
): EmptyFilter | undefined {
  if (occurring.includes(action) || Object.hasOwn(auditSentences, action)) return undefined;
  const text = `There is no action ${shown(action)}.`;
  return { text, meant: nearest(action, Object.keys(auditSentences)) };
}

/** The kinds of targets by the beginnings of their ids. */
const targetKinds = { key_: 'key', user_: 'user', client_: 'client', group_: 'group' } as const;

/** Says how to enter a target. */
export async function unknownTarget(
  target: string,
  organization: string,
  db: Db,
): Promise<EmptyFilter> {
  const text = `No entry has the target ${shown(target)}. Enter a target as an entry shows it under Details, such as key:key_… or server:${organization}/sales.`;
  const kind = Object.entries(targetKinds).find(([start]) => target.startsWith(start))?.[1];
  if (kind !== undefined) return { text, meant: `${kind}:${target}` };
  const server = await findServer(db, organization, target.split('/').at(-1) ?? '');
  const meant = server && `server:${organization}/${server.name}`;
  return { text, meant: meant === target ? undefined : meant };
}
