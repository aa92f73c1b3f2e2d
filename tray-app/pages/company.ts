import { html, nothing, type TemplateResult } from 'lit-html';
import type { Outcome, SignInView } from '#model/contract';
import { companyHost, isInProgress, listOf, type Company } from '#model/state';
import { address, capitalized, factList, moment, tokenLife } from './format.ts';
import { outcomeNotice, problemNotice, stateBadge, waitingView } from './notices.ts';

type CompanyAction = 'signInCompany' | 'signOutCompany' | 'cancelSignIn' | 'copySignInAddress';

type CardPorts = {
  /** The sign-in at the company's provider, if it is in progress or has failed. */
  signIn: SignInView | undefined;
  /** The outcome of the last action. */
  outcome: Outcome | undefined;
  busy: boolean;
  act: (operation: CompanyAction, name: string) => void;
};

/** The sign-in at the provider of a company, once for all connections that share it. */
export function companyCard(
  one: Company,
  { signIn, outcome, busy, act }: CardPorts,
): TemplateResult {
  const { signedIn, reason = '', names } = one;
  const [name] = names;
  const host = companyHost(one);
  const waiting = signIn !== undefined && isInProgress(signIn);
  const badge = signedIn ? stateBadge('good', 'Signed in') : stateBadge('warn', 'Sign-in required');
  const button = (label: string, operation: CompanyAction, kind: string) =>
    html`<button
      type="button"
      class=${kind}
      aria-label=${`${label} at ${host}`}
      ?disabled=${busy}
      @click=${() => act(operation, name)}
    >
      ${label}
    </button>`;
  return html`<li class="card" aria-busy=${busy}>
    <div class="card-head">
      <h2 dir="auto">${host}</h2>
      ${waiting ? stateBadge('busy', 'Waiting for browser') : badge}
    </div>
    <p class="detail">Company sign-in for <bdi>${listOf(names)}</bdi></p>
    ${reason === '' ? nothing : html`<p class="detail">${capitalized(reason)}.</p>`}
    ${
      waiting
        ? waitingView(signIn, {
            cancel: () => act('cancelSignIn', signIn.name),
            copyAddress: () => act('copySignInAddress', signIn.name),
          })
        : nothing
    }
    ${signIn?.phase === 'failed' ? problemNotice(signIn.problem, signIn.remedy) : nothing}
    ${signedIn ? facts(one) : nothing} ${outcomeNotice(outcome)}
    ${
      waiting
        ? nothing
        : html`<div class="actions">
            ${
              signedIn
                ? button('Sign out', 'signOutCompany', 'quiet')
                : button('Sign in', 'signInCompany', 'primary')
            }
          </div>`
    }
  </li>`;
}

function facts({ issuer, clientId, signedInAs, expiresAt, renewable }: Company): TemplateResult {
  const rows: [string, unknown][] = [
    ['Signed in as', signedInAs && html`<bdi>${signedInAs}</bdi>`],
    ['Issuer', html`<span class="mono">${address(issuer)}</span>`],
    ['Client ID', html`<span class="mono">${clientId}</span>`],
    ['ID token', expiresAt !== undefined && tokenLife(expiresAt, renewable)],
  ];
  return html`<details class="more">
    <summary>
      ${signedInAs === undefined ? 'Signed in' : html`Signed in as <bdi>${signedInAs}</bdi>`}${
        renewable || expiresAt === undefined
          ? ' · renewed automatically'
          : html` · expires ${moment(expiresAt)}`
      }
    </summary>
    ${factList(rows)}
  </details>`;
}
