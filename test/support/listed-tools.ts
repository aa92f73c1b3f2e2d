import { listDefinitions } from '#server/db/definitions';
import { noteDefinitions, type RecordDefinitions } from '#server/db/note-definitions';
import type { Db } from '#server/db/transaction';
import type { Definition } from '#server/model/definitions';

/** The known tools of a server, ordered by name. */
export async function listToolDefinitions(db: Db, targetId: string) {
  return (await listDefinitions(db, targetId)).filter(({ kind }) => kind === 'tool');
}

/** Compares and stores tools as one whole list of a server. */
export function noteTools(
  db: Db,
  targetId: string,
  definitions: readonly Definition[],
  now: number,
  record?: RecordDefinitions,
) {
  return noteDefinitions(db, targetId, { kind: 'tool', definitions, isLast: true }, now, record);
}
