import type { Outcome, SignInView } from '#contract';

export type SignInWaitsPorts = {
  now: () => number;
  /** Hears of every step. */
  changed: () => void;
};

/** What a sign-in is done with. */
export type SignInAsk = {
  signal: AbortSignal;
  /** Tells where the person has to go, and whether a browser went there. */
  waits: (page: string, browserOpened: boolean) => void;
};

/** The sign-ins that this app has begun: at most one a connection, each seen and cancellable. */
export interface SignInWaits {
  views(): SignInView[];
  /** Does `work`, which waits for a person; a second one for the same name joins the first. */
  begin(name: string, work: (ask: SignInAsk) => Promise<Outcome>): Promise<Outcome>;
  /** `false` when none was under way. */
  cancel(name: string): boolean;
  /** The page that waits, as a secret of the person: it is theirs to open. */
  address(name: string): string | undefined;
  /** Forgets what has ended. */
  forget(name: string): void;
}

type Wait = {
  view: SignInView;
  controller: AbortController;
  address: string | undefined;
  ending: Promise<Outcome>;
};

export function signInWaits({ now, changed }: SignInWaitsPorts): SignInWaits {
  const waits = new Map<string, Wait>();

  function note(wait: Wait, news: Partial<SignInView>): void {
    wait.view = { ...wait.view, ...news };
    changed();
  }

  async function run(wait: Wait, work: (ask: SignInAsk) => Promise<Outcome>): Promise<Outcome> {
    const { signal } = wait.controller;
    const outcome = await work({
      signal,
      waits(page, browserOpened) {
        wait.address = page;
        note(wait, { phase: 'waiting', browserOpened });
      },
    });
    wait.address = undefined;
    if (outcome.ok) note(wait, { phase: 'done' });
    else if (signal.aborted) note(wait, { phase: 'cancelled', problem: '', remedy: '' });
    else note(wait, { phase: 'failed', problem: outcome.problem, remedy: outcome.remedy });
    return outcome;
  }

  return {
    views: () => [...waits.values()].map(({ view }) => view),
    async begin(name, work) {
      const under = waits.get(name);
      if (under && isUnderWay(under.view)) return under.ending;
      const view: SignInView = {
        name,
        phase: 'opening',
        browserOpened: false,
        since: now(),
        problem: '',
        remedy: '',
      };
      const ending = Promise.withResolvers<Outcome>();
      const wait: Wait = {
        view,
        controller: new AbortController(),
        address: undefined,
        ending: ending.promise,
      };
      waits.set(name, wait);
      changed();
      run(wait, work).then(ending.resolve, ending.reject);
      return ending.promise;
    },
    cancel(name) {
      const wait = waits.get(name);
      if (!wait || !isUnderWay(wait.view)) return false;
      wait.controller.abort();
      return true;
    },
    address: (name) => waits.get(name)?.address,
    forget(name) {
      const wait = waits.get(name);
      if (wait && !isUnderWay(wait.view)) waits.delete(name);
    },
  };
}

function isUnderWay({ phase }: SignInView): boolean {
  return phase === 'opening' || phase === 'waiting';
}
