import { redact } from '#log/redact';
import type { CallKind, CallSubject } from './rollup-store.ts';

const maxNames = 100;
const maxLength = 128;

/** Stands for what has no row of its own. */
export const otherNames = '(other)';

/**
 * Which names of tools and methods get rows of their own. They come from callers, who may send what they
 * like: a name counts once its MCP server has answered it well, up to a hundred of each kind a server.
 */
export class ToolNames {
  readonly #known = new Map<string, Set<string>>();

  constructor(kept: readonly (CallSubject & { kind: CallKind })[] = []) {
    for (const { serverId, kind, subject } of kept) this.#of(serverId, kind).add(subject);
  }

  /** The name itself, or `otherNames`. */
  counted(serverId: string, kind: 'tool' | 'method', name: string, isAnswered: boolean): string {
    const names = this.#of(serverId, kind);
    if (names.has(name)) return name;
    if (!isAnswered || names.size >= maxNames || name.length > maxLength) return otherNames;
    // A name is whatever a caller says, and an upstream may answer anything well.
    if (redact(name) !== name) return otherNames;
    names.add(name);
    return name;
  }

  #of(serverId: string, kind: CallKind): Set<string> {
    const key = `${kind} ${serverId}`;
    const known = this.#known.get(key);
    if (known) return known;
    const names = new Set<string>();
    this.#known.set(key, names);
    return names;
  }
}
