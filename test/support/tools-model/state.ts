// The changes of each step to the state that decides rights.

import { names } from './model-server.ts';
import {
  type Audience,
  type Known,
  type Listed,
  type ListedKind,
  listedKinds,
  type State,
} from './reference.ts';

export function newState(): State {
  const ofListed = <Value>() => ({
    tool: new Map<string, Value>(),
    prompt: new Map<string, Value>(),
    template: new Map<string, Value>(),
  });
  const listed = ofListed<Listed>();
  for (const kind of listedKinds) {
    for (const name of names[kind]) listed[kind].set(name, { version: 0, readOnly: true });
  }
  return {
    changedTools: 'flag',
    newTools: 'offer',
    hidden: new Set(),
    listed,
    known: ofListed(),
    rules: { ...ofListed(), resource: new Map() },
    others: { tool: 'everyone', prompt: 'everyone', resource: 'everyone' },
  };
}

/** A known definition after a person accepted or rejected the version that was last listed. */
export function decided(known: Known, act: 'accept' | 'reject'): Known {
  if (act === 'reject') return { ...known, isRejected: true };
  const accepted = known.seen ?? known.accepted;
  return { ...known, accepted, seen: undefined, isReviewed: true, isRejected: false };
}

/** Notes that the server has just listed all entries of a kind. */
export function noteList({ listed, known, newTools }: State, kind: ListedKind): void {
  for (const [name, now] of listed[kind]) {
    const before = known[kind].get(name);
    const isSame = (one: Listed | undefined) =>
      one?.version === now.version && one.readOnly === now.readOnly;
    if (before) {
      known[kind].set(name, { ...before, seen: isSame(before.accepted) ? undefined : now });
    } else {
      const isOffered = newTools === 'offer';
      const undecided = { isReviewed: false, isRejected: false, corrected: undefined };
      const [accepted, seen] = isOffered ? [now, undefined] : [undefined, now];
      known[kind].set(name, { ...undecided, accepted, seen });
    }
  }
}

/** Changes the default: known definitions without a rule keep the previous default as their rule. */
export function setOthers(state: State, kind: 'tool' | 'prompt' | 'resource', who: Audience): void {
  const was = state.others[kind];
  const ofKind = kind === 'resource' ? 'template' : kind;
  if (String(was) !== String(who)) {
    for (const name of state.known[ofKind].keys()) {
      if (!state.rules[ofKind].has(name)) state.rules[ofKind].set(name, was);
    }
  }
  state.others[kind] = who;
}
