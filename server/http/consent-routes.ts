import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import { isPrivateScheme, isSourceHost } from '#credentials/redirect-uri';
import { askConsent, type AskConsentPorts, type ConsentQuestion } from '#oauth/ask-consent';
import { authorizationRequest } from '#oauth/authorization-request';
import { decideConsent, type DecideConsentPorts } from '#oauth/decide-consent';
import { OAuthRefusal } from '#oauth/oauth-refusal';
import { consentPage, type ConsentPageData } from '#pages/consent-page';
import { errorPage } from '#pages/error-page';
import { shownName } from '#pages/plain-text';
import { scopeSentence } from '#pages/scope-sentence';
import { audited } from './audited.ts';
import { currentPersonOf, type CurrentPerson, type CurrentPersonPorts } from './current-person.ts';
import {
  decidedPage,
  notPermittedPage,
  refusedRequestPage,
  rightsChangedPage,
  secondFactorPage,
  withWayBack,
} from './consent-error-pages.ts';
import { pageErrors } from './page-errors.ts';
import { readPageForm, takeForms } from './page-form.ts';
import { sendPage } from './send-page.ts';

export interface ConsentRoutesOptions {
  readonly base: string;
  readonly ports: AskConsentPorts &
    DecideConsentPorts &
    CurrentPersonPorts & { readonly audit: AuditLog; readonly clock: Clock };
}

/** `/oauth/consent`: asks the person who is signed in, and carries out what they decide. */
export function consentRoutes(app: FastifyInstance, { base, ports }: ConsentRoutesOptions): void {
  const currentPerson = currentPersonOf(base, ports);
  const otherErrors = pageErrors(base, ports);
  takeForms(app);
  app.setErrorHandler((error, request, reply) => {
    if (!(error instanceof OAuthRefusal)) return otherErrors(error, request, reply);
    request.log.info({ code: error.code, reason: error.message, err: error.cause }, 'not asked');
    const { code, retryAfterSeconds } = error;
    if (retryAfterSeconds !== undefined) void reply.header('Retry-After', retryAfterSeconds);
    const status = code === 'slow_down' ? 429 : 400;
    return sendPage(reply, errorPage, refusedRequestPage(error), { status });
  });

  /**
   * Sends the browser back to the application, only if its session lives on: whoever replaces a password
   * ends sessions first and takes back what was allowed last.
   */
  const handOver = async (request: FastifyRequest, reply: FastifyReply, location: string) =>
    reply.redirect((await currentPerson(request)) ? location : '/sign-in', 303);

  app.get('/oauth/consent', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const person = await currentPerson(request);
    const query = request.url.split('?').slice(1).join('?');
    const asked = await authorizationRequest(query, { userId: person?.user.id }, ports);
    if (asked.outcome === 'page') throw asked.refusal;
    if (asked.outcome === 'redirect') return reply.redirect(asked.location, 303);
    if (asked.outcome === 'refused') {
      const page = withWayBack(refusedRequestPage(asked.refusal), asked);
      return sendPage(reply, errorPage, page, { status: 400, ...(person && { person }) });
    }
    if (asked.outcome === 'sign-in' || !person) {
      return reply.redirect(`/sign-in?next=${encodeURIComponent(request.url)}`, 303);
    }
    const consent = await askConsent(asked.request, sessionOf(person), audited(request, ports));
    switch (consent.outcome) {
      case 'refused': {
        const at = { email: person.user.email, serverPath: asked.request.serverPath };
        const page = withWayBack(notPermittedPage(consent.why, at), consent);
        return sendPage(reply, errorPage, page, { status: 403, person });
      }
      case 'second-factor': {
        const page = secondFactorPage(asked.request.serverPath);
        return sendPage(reply, errorPage, page, { status: 403, person });
      }
      case 'redirect':
        return handOver(request, reply, consent.location);
      case 'ask': {
        const formAction = formActionOf(asked.request.redirectUri);
        const data = pageData(consent.question, person, request.url);
        return sendPage(reply, consentPage, data, { person, formAction });
      }
    }
  });

  app.post('/oauth/consent', async (request, reply) => {
    void reply.header('Cache-Control', 'no-store');
    const person = await currentPerson(request);
    const form = readPageForm(request, base, person);
    if (!person) return reply.redirect('/sign-in', 303);
    const decision = { requestId: form.get('request'), allow: form.get('decision') === 'allow' };
    const decided = await decideConsent(decision, sessionOf(person), audited(request, ports));
    if (decided.outcome === 'redirect') return handOver(request, reply, decided.location);
    const page =
      decided.outcome === 'refused'
        ? decidedPage()
        : withWayBack(
            rightsChangedPage(decided.why, {
              email: person.user.email,
              serverPath: decided.target.serverPath,
            }),
            decided,
          );
    return sendPage(reply, errorPage, page, { status: 403, person });
  });
}

function sessionOf({ user, session }: CurrentPerson) {
  return { userId: user.id, sessionId: session.id, factors: session.factors };
}

function pageData(
  { request, terms, place, until, requestId }: ConsentQuestion,
  { user }: CurrentPerson,
  back: string,
): ConsentPageData {
  const [organization = '', server = ''] = request.serverPath.split('/');
  return {
    client: shownName(request.clientName) || 'An application without a name',
    organization,
    server,
    email: user.email,
    scopes: terms.scopes.map(scopeSentence),
    withheld: terms.withheld.map(scopeSentence),
    place,
    until,
    requestId,
    back,
  };
}

/** The source that the browser must let the form's answer go to: the scheme where the host cannot be one. CSP 3 §2.3.1 */
function formActionOf(redirectUri: string): string {
  const { protocol, origin, hostname } = new URL(redirectUri);
  return !isPrivateScheme(protocol) && isSourceHost(hostname) ? origin : protocol;
}
