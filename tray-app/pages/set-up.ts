import { html, type nothing, type TemplateResult } from 'lit-html';
import type { Outcome, Overview, SignInView } from '#model/contract';
import { setUpName } from '#model/set-up';
import { isInProgress } from '#model/state';
import { outcomeNotice, waitingView } from './notices.ts';
import { announce, ask, focusOn, submittedForm, typedText } from './page.ts';

/** The state of the form, which a page keeps. */
export type SetUp = {
  url: string;
  busy: boolean;
  outcome: Outcome | undefined;
  draw: () => void;
  /** Called after servers were connected. */
  done: () => void;
};

export function newSetUp(draw: () => void, done: () => void): SetUp {
  return { url: '', busy: false, outcome: undefined, draw, done };
}

/**
 * Signs in at an address, and connects the servers that the user chooses there. With `choose`, the browser page for choosing opens
 * even if the user is signed in.
 */
export async function setUpAt(url: string, choose: boolean, state: SetUp): Promise<void> {
  state.url = url;
  state.busy = true;
  state.outcome = undefined;
  state.draw();
  announce('Preparing the sign-in…');
  state.outcome = await ask('setUp', { url, choose });
  state.busy = false;
  state.draw();
  announce(state.outcome.ok ? state.outcome.message : state.outcome.problem);
  if (state.outcome.ok) state.done();
  else focusOn('[role=alert]');
}

/** The form for the first start, with one field: the address of the company's Latchkey. */
export function setUpForm(state: SetUp, overview: Overview | undefined): TemplateResult {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const url = typedText(new FormData(submittedForm(event)), 'company');
    if (url !== '') void setUpAt(url, false, state);
  };
  return html`<form class="set-up" @submit=${submit} aria-busy=${state.busy}>
      <div class="field">
        <label for="company">Address of your company’s Latchkey</label>
        <input
          id="company"
          name="company"
          type="text"
          inputmode="url"
          spellcheck="false"
          autocomplete="off"
          required
          maxlength="2048"
          .value=${state.url}
          placeholder="latchkey.example.com"
          aria-describedby="company-help"
        />
        <p id="company-help" class="help">
          You sign in in your browser and choose servers there. All assistants on this computer get
          them.
        </p>
      </div>
      <div class="actions">
        <button class="primary" ?disabled=${state.busy}>
          ${state.busy ? 'Waiting for your browser…' : 'Set up'}
        </button>
      </div>
    </form>
    ${setUpProgress(state, overview)}`;
}

/** The view of a sign-in that waits for the browser, or the outcome of the set-up. */
export function setUpProgress(
  { outcome }: SetUp,
  overview: Overview | undefined,
): TemplateResult | typeof nothing {
  const signIn = overview?.signIns.find(({ name }) => name === setUpName);
  if (signIn?.phase === 'waiting' && isInProgress(signIn)) return waitingSignIn(signIn);
  return outcomeNotice(outcome);
}

/** A sign-in that waits for the browser. Screen readers announce whether the address was copied; the page does not show it. */
export function waitingSignIn(signIn: SignInView): TemplateResult {
  const { name } = signIn;
  return waitingView(signIn, {
    cancel: () => void ask('cancelSignIn', { name }),
    copyAddress: () =>
      void ask('copySignInAddress', { name }).then((copied) =>
        announce(copied.ok ? copied.message : copied.problem),
      ),
  });
}
