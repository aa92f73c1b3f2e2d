import type { CheckSummary } from '#db/provider-checks';
import type { EpochSeconds } from '#model/clock';
import type { ProviderChecking } from '#model/provider-checks';
import { html, type Html } from '#web/html';
import { copyable, relativeTime } from '#web/tables';
import { localTime } from '#web/times';

/** How removing people at a provider ends their access here. */
export interface ProviderRemoval {
  readonly logoutUri: string;
  /** When the provider last announced a logout; absent where that is not recorded. */
  readonly announcedAt?: EpochSeconds | null;
  readonly checking: ProviderChecking;
  readonly checks: CheckSummary;
}

/** Says what happens here when people are removed or signed out at a provider, and whether the checks work. */
export function removalSection(removal: ProviderRemoval, now: EpochSeconds): Html {
  const { logoutUri, announcedAt, checks } = removal;
  return html`<section class="section" aria-labelledby="removal-heading">
<h2 id="removal-heading">Removal at the provider</h2>
${checks.failing > 0 && failing(checks)}
<p>${checkWords(removal)}</p>
<p class="help">If the provider can announce logouts (OpenID Connect Back-Channel Logout), register this URL there, and let it send the session. Sessions here then end at once.</p>
${copyable(logoutUri, 'the logout URL')}
${announcedAt !== undefined && html`<p class="help">Last logout announced: ${announcedAt === null ? 'none yet' : relativeTime(announcedAt, now)}.</p>`}
</section>`;
}

function failing({ failure, failingSince }: CheckSummary): Html {
  const since = failingSince === undefined ? '' : html` since ${localTime('moment', failingSince)}`;
  const next =
    failure === 'refused'
      ? 'They lose their access if it does so again. Latchkey asks once more after five minutes.'
      : 'They keep their access until the provider answers. Latchkey tries again.';
  return html`<div class="notice warning" role="status"><p>Some people could not be checked${since}: ${failureWords(failure)}. ${next}</p></div>`;
}

/** Says why checks fail, as `ProviderFaultCode` names it. */
export function failureWords(failure: string | undefined): string {
  if (failure === 'unreachable') return 'the provider does not answer';
  if (failure === 'client-refused') return 'the provider does not accept the client ID and secret';
  if (failure === 'refused') return 'the provider refused their refresh tokens without a reason';
  return `the provider did not answer as expected (${failure ?? 'unknown'})`;
}

function checkWords({ checking, checks }: ProviderRemoval): string {
  const { checkAgain, sessionCheckMinutes, grantCheckHours } = checking;
  if (checkAgain === 'never') {
    return 'People are not checked again. Someone who is removed there keeps their access until their session here ends, and that of their applications until you end it.';
  }
  const times = `every ${spelled(sessionCheckMinutes, 'minute')} while they have a session, and every ${spelled(grantCheckHours, 'hour')} while applications have access for them`;
  if (checks.people > 0) {
    return `People are checked again at the provider: ${times}. People who are removed there lose both here.`;
  }
  return checkAgain === 'auto'
    ? 'No one can be checked again, because the provider announces logouts itself, has issued no refresh token, or no one has signed in yet. Sessions here end when the provider announces a logout.'
    : `People are checked ${times}, once the provider has issued a refresh token for them. It has issued none yet.`;
}

function spelled(count: number, unit: string): string {
  return count === 1 ? unit : `${count} ${unit}s`;
}
