import type { Clock } from '#clock/clock';
import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { AccessTokens } from '#signing/access-token';
import type { Admission, AdmissionStore, AdmittedClient } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { PresentedCredential, VouchedPerson } from './presented-credential.ts';

interface Place {
  readonly organization: string;
  readonly server: string;
}

export interface AdmitPorts {
  readonly admissions: AdmissionStore;
  readonly tokens: AccessTokens;
  readonly clock: Clock;
  readonly endpointUrl: (serverPath: string) => string;
}

/**
 * Lets a credential in to the server it is for, or says `bad_credential`, the same for every cause.
 * A store that cannot be asked means `unavailable`, never an unchecked yes.
 *
 * RFC 9068 §4, RFC 6750 §3.1
 *
 * @throws {GatewayRefusal} `bad_credential`, `unavailable`
 */
export async function admit(
  credential: PresentedCredential | VouchedPerson,
  at: Place,
  ports: AdmitPorts,
): Promise<Admission> {
  switch (credential.type) {
    case 'key':
      return admitKey(credential.key, at, ports);
    case 'token':
      return admitToken(credential.token, at, ports);
    case 'person':
      return admitPerson(credential.userId, at, ports);
  }
}

async function admitKey(
  key: string,
  at: Place,
  { admissions, clock }: AdmitPorts,
): Promise<Admission> {
  if (!isWellFormedSecret('mcp_', key)) throw new GatewayRefusal('bad_credential');
  const keyHash = hashSecret(key);
  const ask = () => admissions.byKey({ ...at, keyHash, now: clock.now() });
  const found = await asked(ask());
  if (!found) throw new GatewayRefusal('bad_credential');
  return {
    principal: `key:${found.keyId}`,
    credential: { type: 'key', id: found.keyId },
    scopes: found.scopes,
    server: found.server,
    reference: found.keyId,
    ...whileAsked(`key ${found.keyId}`, ask),
  };
}

async function admitToken(
  token: string,
  at: Place,
  { admissions, tokens, clock, endpointUrl }: AdmitPorts,
): Promise<Admission> {
  const verdict = await tokens.verify(token);
  if (verdict.outcome === 'invalid') {
    throw new GatewayRefusal('bad_credential', { cause: verdict.reason });
  }
  const { id: tokenId, audience, clientId, grantId, subject, scopes, expiresAt } = verdict.claims;
  if (audience !== endpointUrl(`${at.organization}/${at.server}`)) {
    throw new GatewayRefusal('bad_credential', { cause: 'for another server' });
  }
  const grant = grantId === undefined ? undefined : { id: grantId, userId: subject };
  const ask = () => admissions.byClient({ ...at, clientId, tokenId, grant });
  const askForAny = () => admissions.byClient({ ...at, clientId, grant });
  const found = await asked(ask());
  if (!found) throw new GatewayRefusal('bad_credential', { cause: 'revoked' });
  const within = (most: AdmittedClient) => scopes.filter((scope) => most.scopes.includes(scope));
  return {
    principal: `client:${clientId}:${subject}`,
    credential: { type: 'client', id: clientId },
    ...(grantId !== undefined && { grantId, userId: subject }),
    scopes: within(found),
    server: found.server,
    reference: tokenId,
    async scopesNow() {
      const now = expiresAt > clock.now() ? await ask() : undefined;
      return now && within(now);
    },
    standing: whileAsked(`client ${clientId} ${grantId ?? ''}`, askForAny).standing,
  };
}

async function admitPerson(
  userId: string,
  { organization, server }: Place,
  { admissions }: AdmitPorts,
): Promise<Admission> {
  const ask = () => admissions.byPerson({ organization, server, userId });
  const found = await asked(ask());
  if (!found) throw new GatewayRefusal('bad_credential', { cause: 'no member' });
  return {
    principal: `user:${userId}`,
    credential: { type: 'person', id: userId },
    userId,
    scopes: found.scopes,
    server: found.server,
    reference: `user:${userId}`,
    ...whileAsked('person', ask),
  };
}

/** For as long as the same question finds something. */
function whileAsked(
  name: string,
  ask: () => Promise<Pick<AdmittedClient, 'scopes'> | undefined>,
): Pick<Admission, 'scopesNow' | 'standing'> {
  const scopesNow = async () => (await ask())?.scopes;
  return { scopesNow, standing: { name, stands: async () => (await ask()) !== undefined } };
}

async function asked<Answer>(question: Promise<Answer>): Promise<Answer> {
  try {
    return await question;
  } catch (cause) {
    throw new GatewayRefusal('unavailable', { cause });
  }
}
