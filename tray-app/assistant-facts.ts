import type { AccountsDoor } from 'latchkey/accounts';
import type { AssistantView } from '#contract';

/** Each assistant, what it starts, and which of its entries can be taken over. */
export async function assistantFacts(door: AccountsDoor): Promise<AssistantView[]> {
  const [assistants, { entries }] = await Promise.all([door.assistants(), door.importable()]);
  return assistants.map(({ id, title, file, found, starts, problem = '' }) => ({
    id,
    title,
    file,
    found,
    problem,
    installed: [...starts],
    importable: entries
      .filter((one) => one.file === file)
      .map(({ entry, url, fromMcpRemote }) => ({ entry, url, fromMcpRemote })),
  }));
}
