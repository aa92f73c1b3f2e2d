import { timingSafeEqual } from 'node:crypto';

/**
 * What is bound to one caller: what an upstream gives it to hand back later, and would take from anybody, and the tasks
 * that it keeps for the upstream itself.
 */
export type SealedKind = 'task' | 'state' | 'ownTask';

/** Makes a code that only this server can make, the same for the same text; 43 letters. */
export type Mac = (text: string) => string;

const macLetters = 22;

/**
 * Binds what an upstream hands out to the owner it was for, a principal at a server: 132 bits of a code
 * over it, a dot, and the upstream's own words. Upstreams see one gateway and cannot tell its callers
 * apart, so they would honour anybody's. The same value is always sealed alike, as clients compare task
 * ids.
 *
 * MCP 2025-11-25 tasks, "Task Isolation and Access Control"; MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function principalSeal(owner: string, mac: Mac) {
  const codeOf = (kind: SealedKind, value: string) =>
    mac(JSON.stringify([kind, owner, value])).slice(0, macLetters);
  return {
    seal: (kind: SealedKind, value: string): string => `${codeOf(kind, value)}.${value}`,

    /** `undefined` for what was not sealed for this owner. */
    open(kind: SealedKind, sealed: string): string | undefined {
      const value = sealed.slice(macLetters + 1);
      const right = Buffer.from(`${codeOf(kind, value)}.`);
      const said = Buffer.from(sealed.slice(0, macLetters + 1));
      return said.length === right.length && timingSafeEqual(said, right) ? value : undefined;
    },
  };
}

export type PrincipalSeal = ReturnType<typeof principalSeal>;
