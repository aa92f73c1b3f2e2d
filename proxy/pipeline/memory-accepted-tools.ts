import type { AcceptedTools, AcceptedToolStore } from './accepted-tools.ts';

/** Forgets everything with the process, for machines that must keep nothing. */
export function memoryAcceptedTools(kept: AcceptedTools = new Map()): AcceptedToolStore {
  let tools = kept;
  return {
    read: () => Promise.resolve(tools),
    write: (next) => {
      tools = next;
      return Promise.resolve();
    },
  };
}
