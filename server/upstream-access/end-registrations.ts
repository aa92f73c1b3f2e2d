import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import { OutboundError } from '#outbound/outbound-error';
import type { Sealing } from '#people/sealing';
import {
  registrationPurpose,
  type EndedRegistration,
  type EndedRegistrationStore,
} from './client-registration.ts';
import type { UpstreamAccess } from './upstream-access.ts';

const batch = 20;
/** Some nine hours, the pauses doubling from a minute. */
const maxAttempts = 10;

export interface EndRegistrationsPorts {
  readonly registrations: EndedRegistrationStore;
  /** The fetch with which the authorization server of an access is asked. */
  readonly askFor: (access: UpstreamAccess) => GuardedFetch;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
}

/**
 * Has authorization servers forget us where we registered ourselves and are a client no longer, and writes down whether
 * they did. One that lets no client be removed, or has forgotten it, is not asked again.
 *
 * RFC 7592 §2.3
 */
export async function endRegistrations(ports: EndRegistrationsPorts): Promise<void> {
  const { registrations, clock } = ports;
  const due = await registrations.due(clock.now(), batch);
  await Promise.all(due.map((one) => endRegistration(one, ports)));
}

async function endRegistration(
  one: EndedRegistration,
  { registrations, askFor, sealing, audit, clock }: EndRegistrationsPorts,
): Promise<void> {
  const { access, registration, organization, server, attempts } = one;
  const next = clock.now() + 60 * 2 ** attempts;
  const at = { accessId: access.id, attempts };
  if (!(await registrations.postpone(at, next))) return;
  const token = sealing.open(registrationPurpose(access), registration.sealedToken);
  const outcome = await removed(registration.url, token, askFor(access));
  if (outcome === 'done' || attempts === 0) {
    await audit.append({
      at: clock.now(),
      actor: 'nobody',
      organization,
      action: 'upstream-client.deregister',
      target: `server:${organization === undefined ? '' : `${organization}/`}${server}`,
      address: undefined,
      requestId: undefined,
      outcome: outcome === 'done' ? 'done' : 'refused',
    });
  }
  if (outcome === 'away' && attempts + 1 < maxAttempts) return;
  await registrations.remove(access.id);
}

async function removed(
  url: string,
  token: string,
  ask: GuardedFetch,
): Promise<'done' | 'refused' | 'away'> {
  try {
    const headers = { authorization: `Bearer ${token}` };
    const { ok, status } = await ask(url, { method: 'DELETE', headers });
    if (ok) return 'done';
    return status >= 500 || status === 429 ? 'away' : 'refused';
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return error.code === 'forbidden' ? 'refused' : 'away';
  }
}
