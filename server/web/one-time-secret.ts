import type { ProxyReference } from '#download/proxy-reference';
import { hiddenField } from './forms.ts';
import { html, type Html } from './html.ts';
import { layout, pageHeading, type Frame } from './layout.ts';
import {
  agentStepList,
  type AgentStep,
  type ConnectionInstructions,
  instructionList,
  proxySource,
} from './instructions.ts';
import { copyButton } from './tables.ts';

/** A secret that is shown once, in the response that creates it. */
export interface OneTimeSecret {
  /** Its kind, such as `API key`. */
  readonly label: string;
  readonly secret: string;
  /** Related values that are not secret, such as the client id. */
  readonly beside?: readonly { readonly label: string; readonly text: string }[];
  /** How to connect with it. */
  readonly instructions?: ConnectionInstructions;
  /** What to do with an agent's key. */
  readonly steps?: readonly AgentStep[];
  /** The source of the proxy for the steps. */
  readonly proxy?: ProxyReference;
  /** What this server does with it; default: it stores a fingerprint. */
  readonly kept?: string;
  /** What to do if it is lost; default: create a new one. */
  readonly again?: string;
  /** Where to store it, in a sentence; default: for an application's secret. */
  readonly keep?: string;
  /** Where to go once it is stored; reloading the page leads there too. */
  readonly done: string;
}

/** A secret with instructions, and a checkbox to confirm that it was stored. */
export function secretPanel(shown: OneTimeSecret): Html {
  const { label, secret, beside = [], instructions, proxy, steps, done } = shown;
  const {
    kept = 'stores only a fingerprint of it',
    again = 'create a new one',
    keep = instructions
      ? 'In the keychain with one of the commands above, or in a password manager.'
      : 'In a password manager, for example.',
  } = shown;
  const noun = label.split(' ').at(-1)?.toLowerCase();
  const [path = '', query = ''] = done.split('?');
  return html`<section class="secret" aria-labelledby="secret-heading" data-secret="${done}">
<h2 id="secret-heading">${label}, shown only once</h2>
<p>You won’t see this ${noun} again: this server ${kept}. If you lose it, ${again}.</p>
<dl class="facts">
${beside.map(
  (one) =>
    html`<div>
<dt>${one.label}</dt>
<dd class="copied">
<code>${one.text}</code>${copyButton(one.text, `the ${one.label}`)}
</dd>
</div>`,
)}
<div>
<dt>${label}</dt>
<dd class="copied">
<code class="value">${secret}</code>${copyButton(secret, `the ${label}`)}
</dd>
</div>
</dl>
${instructions && instructionList(instructions)}
${steps && agentStepList(steps)}
${proxy && proxySource(proxy)}
<form class="stored" method="get" action="${path}">
${[...new URLSearchParams(query)].map(([name, value]) => hiddenField(name, value))}
<div class="option">
<input type="checkbox" id="stored" required>
<div>
<label for="stored">I have stored it</label>
<p class="help">${keep} There is no way back to this page.</p>
</div>
</div>
<div class="actions"><button class="primary">Done</button></div>
</form>
</section>`;
}

interface OneTimeSecretPageData {
  /** What was created, such as `API key Nightly report`. */
  readonly heading: string;
  /** What to do with it, in a sentence. */
  readonly next: string;
  readonly secret: OneTimeSecret;
}

/** Shows a secret once, in the response that creates it. */
export function oneTimeSecretPage(
  { heading, next, secret }: OneTimeSecretPageData,
  frame: Frame,
): Html {
  const content = html`${pageHeading({ heading, lead: next })}
${secretPanel(secret)}`;
  return layout({ title: `${secret.label}, shown only once`, width: 'text' }, frame, content);
}
