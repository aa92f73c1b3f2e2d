import type { CallKind, CallSubject } from '#db/rollups';
import { redact } from '#log/redact';

const maxNames = 100;
const maxLength = 128;

/** For everything without a row of its own. */
export const otherNames = '(other)';

/**
 * Decides which tool and method names get rows of their own. Names come from callers, who can send anything, so a
 * name is accepted only after its MCP server has answered it successfully, and at most a hundred of each kind per
 * server.
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
    // Callers choose names freely, and an upstream may accept any, even a secret.
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
