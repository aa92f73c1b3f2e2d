import { findNamedActors, type NamedActor } from '#audit/event-sentences';
import type { Db } from '#db/transaction';
import { displayName } from '#web/html';

/** Returns the name to show for an actor in the audit log, such as `user:…`, `key:…`, `client:…` or `operator`. */
export type ActorName = (actor: string) => string;

/** Finds the names of actors. An actor that no longer exists is named by its id. */
export async function findActorNames(
  db: Db,
  actors: Iterable<string | undefined>,
): Promise<ActorName> {
  const actorOf = await findNamedActors(db, actors);
  return (actor) => actorText(actorOf(actor));
}

/** An actor in words for a page. */
export function actorText({ words, name }: NamedActor): string {
  return name === undefined ? words : `${words}${words && ' '}${displayName(name)}`;
}
