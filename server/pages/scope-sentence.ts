import type { Scope } from '#credentials/scope';

/** What a scope lets an application do, for somebody who has never heard of scopes. */
export interface ScopeSentence {
  readonly text: string;
  /** What deserves a second thought, if anything. */
  readonly risk: string | undefined;
}

const sentences: Readonly<Record<Scope, ScopeSentence>> = {
  'mcp:tools:read': { text: 'See which tools the server has', risk: undefined },
  'mcp:tools:execute': {
    text: 'Use those tools in your name',
    risk: 'A tool may change or send data, not only read it.',
  },
  'mcp:resources:read': {
    text: 'Read the documents, skills and prompts of the server',
    risk: undefined,
  },
  'mcp:server:read': { text: 'See how the server is set up', risk: undefined },
  'mcp:server:manage': {
    text: 'Change how the server is set up',
    risk: 'This changes the server for everybody who uses it.',
  },
};

/** The sentence of one scope. */
export function scopeSentence(scope: Scope): ScopeSentence {
  return sentences[scope];
}
