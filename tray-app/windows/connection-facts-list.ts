import { html, nothing, type TemplateResult } from 'lit-html';
import type { ConnectionView } from '#contract';
import { moment } from './moment.ts';

const asWords: Record<ConnectionView['as'], string> = {
  person: 'you, in person',
  client: 'an OAuth client',
  api_key: 'an API key',
};

/** What is known of a connection, one row a fact. */
export function connectionFactsList(one: ConnectionView): TemplateResult {
  const { as, account, issuer, scopes, tokenExpiresAt, renewable, keySince, lastCall } = one;
  const { signedInAs } = one;
  const rows: [string, unknown][] = [
    ['Reaches it as', account ?? asWords[as]],
    ['Signed in as', signedInAs],
    ['Signed in at', issuer && html`<span class="mono">${issuer}</span>`],
    ['May', scopes.length > 0 && html`<span class="mono">${scopes.join(' ')}</span>`],
    ['Access token', tokenExpiresAt !== undefined && tokenLife(tokenExpiresAt, renewable)],
    [as === 'api_key' ? 'Key stored' : 'Secret stored', keySince !== undefined && moment(keySince)],
    [
      'Last call',
      lastCall &&
        html`<span class="mono">${lastCall.method}</span>, ${callWords[lastCall.outcome]},
          ${moment(lastCall.at)}`,
    ],
    ['In use by', one.usedBy.join(', ')],
    ['Installed in', one.startedBy.join(', ')],
  ];
  return html`<dl class="facts">
    ${rows.map(([term, fact]) =>
      fact
        ? html`<dt>${term}</dt>
            <dd>${fact}</dd>`
        : nothing,
    )}
  </dl>`;
}

const callWords: Record<NonNullable<ConnectionView['lastCall']>['outcome'], string> = {
  ok: 'answered',
  tool_error: 'the tool failed',
  failed: 'failed',
};

function tokenLife(expiresAt: number, renewable: boolean): TemplateResult {
  const past = expiresAt <= Date.now() / 1000;
  return html`${past ? 'expired' : 'expires'}
  ${moment(expiresAt)}${renewable ? ', renewed by itself' : ''}`;
}
