import type { ConnectionView } from '#contract';

/** The state of a connection in a word or two, in the menu as in the window Connections. */
export const stateWords: Record<ConnectionView['state'], string> = {
  ready: 'ready',
  connecting: 'connecting',
  needs_sign_in: 'needs sign-in',
  needs_key: 'needs a key',
  trouble: 'trouble',
  offline: 'offline',
};
