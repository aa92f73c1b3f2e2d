import type { ConnectionView, Overview } from '#contract';
import { secretWords } from '#secret-words';

/** A native notification. A click on it opens `window`. */
export type Notice = {
  name: string;
  title: string;
  body: string;
  opens: 'signIn' | 'key';
};

/**
 * Whom to tell what, of two looks at the connections: each that needs a person now and did not before.
 * Whoever shows one claims it first, so that nobody is told twice a day.
 */
export function notices(before: Overview | undefined, now: Overview): Notice[] {
  const earlier = new Map(before?.connections.map(({ name, state }) => [name, state]));
  return now.connections
    .filter(({ name, state }) => earlier.get(name) !== state)
    .filter(({ name }) => !now.signIns.some((one) => one.name === name && one.phase === 'waiting'))
    .flatMap((one) => noticeOf(one) ?? []);
}

function noticeOf(one: ConnectionView): Notice | undefined {
  const { name, state, keyDue } = one;
  const what = secretWords(one);
  if (state === 'needs_sign_in')
    return {
      name,
      title: `${name} needs you to sign in`,
      body: 'An assistant is waiting. Click to sign in with your browser.',
      opens: 'signIn',
    };
  if (state === 'needs_key')
    return {
      name,
      title: `${name} needs a new ${what}`,
      body: `Its ${what} is missing or is no longer accepted. Click to enter one.`,
      opens: 'key',
    };
  if (keyDue)
    return {
      name,
      title: `Time to rotate the ${what} of ${name}`,
      body: 'It is 90 days old. Click to enter a new one.',
      opens: 'key',
    };
  return undefined;
}
