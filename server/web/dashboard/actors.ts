import { findSubjectNames } from '#db/subject-names';
import type { Db } from '#db/transaction';
import { displayName } from '#web/html';

/** Returns the name of an actor as the audit log has it: `user:…`, `key:…`, `client:…`, `operator`. */
export type ActorName = (actor: string) => string;

/** Finds the names of actors. An actor that no longer exists is named by its id. */
export async function findActorNames(
  db: Db,
  actors: Iterable<string | undefined>,
): Promise<ActorName> {
  const all = [...new Set(actors)].filter((actor) => actor !== undefined);
  const idsOf = (type: string) =>
    all.map(actorParts).flatMap((parts) => (parts.type === type ? [parts.id] : []));
  const people = await findSubjectNames(db, 'person', idsOf('user'));
  const keys = await findSubjectNames(db, 'key', idsOf('key'));
  const clients = await findSubjectNames(db, 'client', idsOf('client'));
  return (actor) => {
    const { type, id } = actorParts(actor);
    switch (type) {
      case 'user':
        return displayName(people.get(id) ?? `a deleted person (${id})`);
      case 'key':
        return `API key ${displayName(keys.get(id) ?? id)}`;
      case 'client':
        return `OAuth client ${displayName(clients.get(id) ?? id)}`;
      case 'operator':
        return 'The operator';
      case 'system':
        return 'Latchkey';
      case 'scim':
        return 'SCIM';
      case 'anonymous':
        return 'An unknown caller';
      default:
        return displayName(actor);
    }
  };
}

/** `client:{id}:{person}` is a client that acts for a person; an id of a client can be a URL. */
function actorParts(actor: string): { readonly type: string; readonly id: string } {
  const [, type = actor, rest = ''] = /^(user|key|client):(.*)$/s.exec(actor) ?? [];
  return { type, id: type === 'client' ? rest.replace(/:user_\w+$/, '') : rest };
}
