import { type AuditEvent, findAuditedNames } from '#db/audit';
import { findServerTitles } from '#db/servers';
import { findSubjectNames } from '#db/subject-names';
import type { Db } from '#db/transaction';
import { auditSentence, pastOf } from './sentences.ts';

/** Who did something: in words, with a name if there is one. */
export interface NamedActor {
  readonly words: string;
  readonly name?: string;
}

/** Finds the names of actors that the audit log stores as `user:…`, `key:…`, `client:…`, `operator`; the id if there is no name. */
export async function findNamedActors(
  db: Db,
  actors: Iterable<string | undefined>,
): Promise<(actor: string) => NamedActor> {
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
        return { words: '', name: people.get(id) ?? `a deleted person (${id})` };
      case 'key':
        return { words: 'API key', name: keys.get(id) ?? id };
      case 'client':
        return { words: 'OAuth client', name: clients.get(id) ?? id };
      case 'operator':
        return { words: 'The operator' };
      case 'system':
        return { words: 'Latchkey' };
      case 'scim':
        return { words: 'SCIM' };
      case 'anonymous':
        return { words: 'An unknown caller' };
      default:
        return { words: '', name: actor };
    }
  };
}

/** `client:{id}:{person}` is a client that acts for a person; an id of a client can be a URL. */
function actorParts(actor: string): { readonly type: string; readonly id: string } {
  const [, type = actor, rest = ''] = /^(user|key|client):(.*)$/s.exec(actor) ?? [];
  return { type, id: type === 'client' ? rest.replace(/:user_\w+$/, '') : rest };
}

/** The parts of an entry that its sentence needs. */
export type SaidEvent = Pick<AuditEvent, 'actor' | 'action'> & {
  readonly target?: string | null | undefined;
  readonly outcome: string;
};

/** A part of a sentence: words, or the name of something, with the title of a server that has one. */
export type SentencePart = string | { readonly name: string; readonly title?: string };

/** The sentence of an entry: who, a verb, and on what. */
export interface EventSentence {
  readonly actor: NamedActor;
  readonly verb: string;
  /** Contains no empty parts. */
  readonly what: readonly SentencePart[];
}

/**
 * Returns a function that makes the sentence of an entry, with the current names and titles of its actor and target, or else their
 * ids. Names and titles are as people entered them: pages neutralize them.
 */
export async function findEventSentences(
  organization: string,
  events: readonly SaidEvent[],
  db: Db,
): Promise<(event: SaidEvent) => EventSentence> {
  const actorOf = await findNamedActors(
    db,
    events.map(({ actor }) => actor),
  );
  const targets = events.map(partsOf);
  const ids = targets.flatMap((parts) => Object.values(parts));
  const names = await findAuditedNames(db, organization, [...new Set(ids)], targetedPeople(events));
  const servers = targets.flatMap(({ server }) => server ?? []);
  const titles = await findServerTitles(db, organization, [...new Set(servers)]);
  return (event) => {
    const { actor, action, target, outcome } = event;
    const [infinitive, what] = auditSentence(action);
    const parts = partsOf(event);
    const page = refusedPage.exec(target ?? '')?.[1];
    if (page !== undefined && what.includes('{')) {
      return { actor: actorOf(actor), verb: 'tried to open', what: ['the page ', { name: page }] };
    }
    const words = what.split(/\{(\w+)\}/).map((text, index): SentencePart => {
      if (index % 2 === 0) return text;
      const part = parts[text] ?? '';
      const title = text === 'server' ? titles.get(part) : undefined;
      if (title !== undefined) return { name: part, title };
      return { name: names.get(part) ?? part };
    });
    const verb = outcome === 'refused' ? `tried to ${infinitive}` : pastOf(infinitive);
    return { actor: actorOf(actor), verb, what: words.filter((part) => part !== '') };
  };
}

/** The route of a page that was refused for the role alone, before the resource of the page was looked up. */
const refusedPage = /^\/dashboard\/:organization(\/.+)$/;

/** The ids of people to whom something was done. They were members then, but may have left since. */
function targetedPeople(events: readonly SaidEvent[]): string[] {
  const done = events.filter(({ outcome }) => outcome === 'done');
  return [...new Set(done.flatMap((event) => partsOf(event)['person'] ?? []))];
}

/** The addresses of the people of an entry, if they still have an account. */
export interface EventPeople {
  /** Of the person who acted, also through a client. */
  readonly actor: string | undefined;
  readonly target: string | undefined;
}

/** Returns a function that finds the people of an entry of an organization. */
export async function findEventPeople(
  organization: string,
  events: readonly SaidEvent[],
  db: Db,
): Promise<(event: SaidEvent) => EventPeople> {
  const actorId = ({ actor }: SaidEvent) =>
    /^(?:user|client):(?:.*:)?(user_\w+)$/s.exec(actor)?.[1];
  const targetId = (event: SaidEvent) => partsOf(event)['person'];
  const idsOf = (find: (event: SaidEvent) => string | undefined) => [
    ...new Set(events.flatMap((event) => find(event) ?? [])),
  ];
  const actors = await findSubjectNames(db, 'person', idsOf(actorId));
  const targets = await findAuditedNames(db, organization, idsOf(targetId), targetedPeople(events));
  return (event) => ({
    actor: actors.get(actorId(event) ?? ''),
    target: targets.get(targetId(event) ?? ''),
  });
}

/** The sentence of an entry as plain text. */
export function sentenceText({ actor, verb, what }: EventSentence): string {
  const who = [actor.words, actor.name].filter(Boolean).join(' ');
  const on = what.map((part) =>
    typeof part === 'string' ? part : part.title || part.name || 'unknown',
  );
  return [who, verb, on.join('')].filter(Boolean).join(' ');
}

/** How parts that are not written as `{name}:{id}` are found in a target. */
const partPatterns: ReadonlyMap<string, RegExp> = new Map([
  ['detail', /^(.*)$/s],
  ['client', /\bclient:(\S+?)(?:\/cs_\w+)?$/],
  ['person', /\b(?:user|scim):(\S+)/],
  ['recipient', /^invitation:\S+ (.+)$/],
  ['organization', /\borganization:(\S+)/],
  ['owned', /^(?:key|client|agent):(\S+)/],
  ['agent', /\bagent:[^\s/]+\/(\S+)/],
  // `tool:{organization}/{server}/{name}` of a change, `server:… tool:{name}` of a call on a page.
  ['tool', /\btool:(?:[^\s/]+\/[^\s/]+\/)?(.+)$/],
  ['prompt', /\bprompt:[^\s/]+\/[^\s/]+\/(.+)$/],
  ['template', /\btemplate:[^\s/]+\/[^\s/]+\/(.+)$/],
  // Also `{organization}/{server}` alone, or after the id of an application.
  ['server', /(?:\bserver:|\btool:|^|\s)[a-z\d-]+\/([a-z\d-]+)(?=\s|\/|$)/],
  ['application', /^(\S+) [a-z\d-]+\/[a-z\d-]+$/],
]);

/** The parts of a target that the sentence of its action names. */
function partsOf({ action, target }: SaidEvent): Readonly<Record<string, string>> {
  const [, what] = auditSentence(action);
  const parts = [...what.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const pattern = partPatterns.get(name) ?? new RegExp(`\\b${name}:([^\\s/]+)`);
    return [name, pattern.exec(target ?? '')?.[1] ?? ''] as const;
  });
  return Object.fromEntries(parts.filter(([, part]) => part !== ''));
}
