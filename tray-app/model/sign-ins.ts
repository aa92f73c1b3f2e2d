import type { Outcome, SignInView } from './contract.ts';
import { failureOf, type Report } from './outcome.ts';
import { isInProgress } from './state.ts';

export type SignInsPorts = {
  now: () => number;
  /** Called after every step. */
  changed: () => void;
  report: Report;
};

/** The parameters of a running sign-in. */
export type SignInProgress = {
  signal: AbortSignal;
  /** Call this with the page that the user has to visit, and whether a browser opened the page. */
  waiting: (page: string, browserOpened: boolean) => void;
};

type SignIn = {
  view: SignInView;
  controller: AbortController;
  address: string | undefined;
  ending: Promise<Outcome>;
};

/** The sign-ins that this app has started: at most one for each connection, each visible and cancellable. */
export function openSignIns({ now, changed, report }: SignInsPorts) {
  const all = new Map<string, SignIn>();

  function note(signIn: SignIn, news: Partial<SignInView>): void {
    signIn.view = { ...signIn.view, ...news };
    changed();
  }

  async function run(
    signIn: SignIn,
    work: (progress: SignInProgress) => Promise<Outcome>,
  ): Promise<Outcome> {
    const { signal } = signIn.controller;
    const outcome = await work({
      signal,
      waiting(page, browserOpened) {
        signIn.address = page;
        note(signIn, { phase: 'waiting', browserOpened });
      },
    }).catch((error: unknown) => failureOf(error, report, signIn.view.name));
    signIn.address = undefined;
    if (outcome.ok) note(signIn, { phase: 'done' });
    else if (signal.aborted) note(signIn, { phase: 'cancelled', problem: '', remedy: '' });
    else note(signIn, { phase: 'failed', problem: outcome.problem, remedy: outcome.remedy });
    return outcome;
  }

  return {
    views: () => [...all.values()].map(({ view }) => view),
    /**
     * Runs `work`, which waits for the user. A second call for the same name joins the first sign-in. If `work` rejects, the outcome
     * is a failure.
     */
    async begin(
      name: string,
      work: (progress: SignInProgress) => Promise<Outcome>,
    ): Promise<Outcome> {
      const current = all.get(name);
      if (current && isInProgress(current.view)) return current.ending;
      const view: SignInView = {
        name,
        phase: 'opening',
        browserOpened: false,
        since: now(),
        problem: '',
        remedy: '',
      };
      const ending = Promise.withResolvers<Outcome>();
      const signIn: SignIn = {
        view,
        controller: new AbortController(),
        address: undefined,
        ending: ending.promise,
      };
      all.set(name, signIn);
      changed();
      run(signIn, work).then(ending.resolve, ending.reject);
      return ending.promise;
    },
    /** Returns `false` if no sign-in was in progress. */
    cancel(name: string): boolean {
      const signIn = all.get(name);
      if (!signIn || !isInProgress(signIn.view)) return false;
      signIn.controller.abort();
      return true;
    },
    /** The address of the page that waits for the user. It is a secret: only the user may open the page. */
    address: (name: string) => all.get(name)?.address,
    /** Removes a sign-in that has ended. */
    forget(name: string): void {
      const signIn = all.get(name);
      if (signIn && !isInProgress(signIn.view)) all.delete(name);
    },
  };
}

export type SignIns = ReturnType<typeof openSignIns>;
