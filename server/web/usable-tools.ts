import { findClient } from '#db/clients';
import { explainRights } from '#db/explained-rights';
import { findServer } from '#db/servers';
import type { Db } from '#db/transaction';
import type { Clock } from '#model/clock';
import { parseServerPath } from '#model/slug';
import { allows, ToolRights } from '#model/tool-rights';
import type { Badge } from './layout.ts';
import type { Choosable, ToolChoiceWords } from './tool-choice.ts';

/** An application, the person for whom it acts, and the server. */
interface Acting {
  readonly userId: string;
  readonly clientId: string;
  /** `{organization}/{server}` */
  readonly serverPath: string;
}

/** The tools, prompts and resources of a server that a person can let an application use. */
export interface UsableTools {
  /** The items that the server is known to offer, that the person may use, and that the application's own limit allows. */
  readonly items: readonly Choosable[];
  /** How many of the tools an administrator accepted as read-only. */
  readonly reading: number;
}

const readOnlyBadge: Badge = { text: 'Read-only', tone: 'plain' };

/** Finds the known tools, prompts and resources of a server that a person may use through an application. */
export async function usableTools(
  { userId, clientId, serverPath }: Acting,
  { db, clock }: { readonly db: Db; readonly clock: Clock },
): Promise<UsableTools> {
  const { organization = '', server: name = '' } = parseServerPath(serverPath) ?? {};
  const server = await findServer(db, organization, name);
  const explained =
    server && (await explainRights(db, server, { type: 'person', userId }, clock.now()));
  if (!server || !explained) return { items: [], reading: 0 };
  const { offered } = server.target;
  // A client that a document describes may not be stored yet; then no one limited it.
  const limit = (await findClient(db, clientId))?.tools;
  const ofClient = new ToolRights(
    { hiddenTools: [], offered },
    { selections: limit ? [limit] : [] },
  );
  const items = explained.items
    .filter(({ kind, name: own, allowed }) => allowed && allows(ofClient.verdict(kind, own)))
    .map(({ kind, name: own }) => ({
      kind,
      name: own,
      badges: kind === 'tool' && offered.readOnly.has(own) ? [readOnlyBadge] : [],
    }));
  return { items, reading: items.filter(({ badges }) => badges.length > 0).length };
}

/** How many of the tools only read, in a sentence for the person. */
export function readingWords({ items, reading }: UsableTools): string {
  const tools = items.filter(({ kind }) => kind === 'tool').length;
  const which = 'Tools that an administrator has accepted as read-only';
  if (tools === 0) return `${which}, documents and prompts. Which these are is not known yet.`;
  if (reading === 0)
    return 'No tool that you can use is accepted as read-only yet: your assistant would see documents and prompts only.';
  return `${which} (now ${reading} of the ${tools} that you can use), documents and prompts.`;
}

/** The words for a person's choice about an application that acts for them. */
export function personWords(usable: UsableTools): ToolChoiceWords {
  return {
    all: {
      text: 'All tools that you can use',
      help: 'Also tools that you can use later.',
    },
    readOnly: { text: 'Only reading', help: readingWords(usable) },
    chosen: {
      text: 'Chosen tools',
      help: 'Nothing else, not even what the server offers later.',
    },
  };
}
