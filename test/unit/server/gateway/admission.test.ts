import { beforeEach, describe, expect, test, vi } from 'vitest';

import { hashSecret, mintSecret } from '#server/secrets/secrets';
import { type AdmissionStore, type AdmittedClient, type AdmittedKey } from '#server/db/admissions';
import { admit, admitProved, presentedCredential, Turn } from '#server/gateway/admission';
import { type AccessTokens, accessTokens } from '#server/oauth/access-tokens';
import type { Scope } from '#server/model/scopes';
import type { UpstreamKind } from '#server/model/upstream-kinds';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { ofNoPerson, someServer } from '#support/some-admission';
import { type StillClock, stillClock } from '#support/still-clock';

describe('admit', () => {
  const base = 'https://latchkey.example.com';
  const place = { organization: 'acme', server: 'sales' };
  const server = someServer();
  const byKey = vi.fn<AdmissionStore['byKey']>();
  const byClient = vi.fn<AdmissionStore['byClient']>();
  const byMember = vi.fn<AdmissionStore['byMember']>();
  const admittedKey: AdmittedKey = {
    endpoint: server,
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: ['mcp:tools:read'],
  };
  const admittedClient: AdmittedClient = {
    endpoint: server,
    toolCaller: ofNoPerson,
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
  };
  const refused = (code: string) => expect.objectContaining({ name: 'GatewayRefusal', code });
  let clock: StillClock;
  let tokens: AccessTokens;

  beforeEach(async () => {
    clock = stillClock();
    tokens = accessTokens(base, { keys: await freshSigningKeys(clock), clock });
    byKey.mockReset().mockResolvedValue(admittedKey);
    byClient.mockReset().mockResolvedValue(admittedClient);
    byMember.mockReset().mockResolvedValue(undefined);
  });

  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;
  const ports = () => ({
    admissions: {
      byKey,
      byClient,
      byPerson: async () => undefined,
      byMember,
      changeToken: () => '',
    },
    tokens,
    clock,
    endpointUrl,
  });
  const withKey = async (key: string) => admit({ type: 'key', key }, place, ports());
  const withToken = async (token: string) => admit({ type: 'token', token }, place, ports());

  function tokenFor({
    audience = `${base}/mcp/acme/sales`,
    scopes = ['mcp:tools:read', 'mcp:resources:read'],
  }: { readonly audience?: string; readonly scopes?: readonly Scope[] } = {}) {
    return tokens.issue({
      id: 'jti-1',
      subject: 'person_a',
      clientId: 'client_a',
      audience,
      scopes,
      issuedAt: clock.now(),
      expiresAt: clock.now() + 3600,
    });
  }

  describe('a key', () => {
    test('is looked up by its hash, for this server, now', async () => {
      const key = mintSecret('mcp_');
      const admission = await withKey(key);

      expect(byKey).toHaveBeenCalledExactlyOnceWith({
        ...place,
        keyHash: hashSecret(key),
        now: clock.now(),
      });
      expect(admission).toMatchObject({
        principal: 'key:key_a',
        credential: { type: 'key', id: 'key_a' },
        scopes: ['mcp:tools:read'],
        endpoint: server,
        reference: 'key_a',
      });
    });

    test('with a wrong checksum is refused without asking the store', async () => {
      await expect(withKey('mcp_wrong')).rejects.toEqual(refused('bad_credential'));
      expect(byKey).not.toHaveBeenCalled();
    });

    test('of an agent is refused at an MCP server', async () => {
      await expect(withKey(mintSecret('pk_live_'))).rejects.toEqual(refused('bad_credential'));
      expect(byKey).not.toHaveBeenCalled();
    });

    test('of a disabled server is refused, and the refusal names it for the audit log only', async () => {
      byKey.mockResolvedValue({ suspension: 'server', endpoint: server, keyId: 'key_a' });
      const refusal = await withKey(mintSecret('mcp_')).catch((error: unknown) => error);

      expect(refusal).toMatchObject({
        code: 'suspended',
        details: {
          principal: 'key:key_a',
          suspended: { by: 'server', credential: { type: 'key', id: 'key_a' } },
        },
      });
      expect(String(refusal)).not.toContain('key_a');
    });

    test('that matches no credential is refused', async () => {
      byKey.mockResolvedValue(undefined);

      await expect(withKey(mintSecret('mcp_'))).rejects.toEqual(refused('bad_credential'));
    });

    test('is looked up again for the time of each request', async () => {
      const { now } = await withKey(mintSecret('mcp_'));
      clock.advance(60);

      expect((await now())?.scopes).toEqual(['mcp:tools:read']);
      expect(byKey).toHaveBeenLastCalledWith(expect.objectContaining({ now: clock.now() }));

      byKey.mockResolvedValue(undefined);

      expect(await now()).toBeUndefined();
    });
  });

  describe('a token', () => {
    test('is looked up by its client and its own id', async () => {
      const admission = await withToken(tokenFor());

      expect(byClient).toHaveBeenCalledExactlyOnceWith({
        ...place,
        clientId: 'client_a',
        tokenId: 'jti-1',
      });
      expect(admission).toMatchObject({
        principal: 'client:client_a:person_a',
        credential: { type: 'client', id: 'client_a' },
        endpoint: server,
        reference: 'jti-1',
      });
    });

    test('has the scopes that it and its client have now, and no others', async () => {
      expect((await withToken(tokenFor())).scopes).toEqual(['mcp:tools:read']);
    });

    test.each([
      ['another server', `${base}/mcp/acme/other`],
      ['the whole organization', `${base}/mcp/acme`],
      ['the same path elsewhere', 'https://evil.example.com/mcp/acme/sales'],
    ])('for %s is refused without asking the store', async (_, audience) => {
      await expect(withToken(tokenFor({ audience }))).rejects.toEqual(refused('bad_credential'));
      expect(byClient).not.toHaveBeenCalled();
    });

    test('with an invalid signature is refused without asking the store', async () => {
      await expect(withToken('e.y.J')).rejects.toEqual(refused('bad_credential'));
      expect(byClient).not.toHaveBeenCalled();
    });

    test('that was revoked is refused', async () => {
      byClient.mockResolvedValue(undefined);

      await expect(withToken(tokenFor())).rejects.toEqual(refused('bad_credential'));
    });

    test('is valid until it expires or is revoked', async () => {
      const { now } = await withToken(tokenFor());
      clock.advance(3599);

      expect((await now())?.scopes).toEqual(['mcp:tools:read']);

      clock.advance(1);

      expect(await now()).toBeUndefined();
    });

    test('may expire or be revoked, and its client continues with another', async () => {
      const { access, now } = await withToken(tokenFor());
      clock.advance(3600);
      byClient.mockImplementation(async ({ tokenId }) =>
        tokenId === undefined ? admittedClient : undefined,
      );

      expect(access.name).toBe('client client_a ');
      expect([await now(), await access.isActive()]).toEqual([undefined, true]);

      byClient.mockResolvedValue(undefined);

      expect(await access.isActive()).toBe(false);
    });

    test('is invalid once its client is deleted', async () => {
      const { now } = await withToken(tokenFor());
      byClient.mockResolvedValue(undefined);

      expect(await now()).toBeUndefined();
    });
  });

  describe('what was admitted before', () => {
    const key = mintSecret('mcp_');
    const remembering = () => ({ ...ports(), known: new WeakMap() });

    test('is the same admission while the store finds the same, and another one after that', async () => {
      const own = remembering();
      const ask = async () => admit({ type: 'key', key }, place, own);
      const before = await ask();
      const again = await ask();
      byKey.mockResolvedValue({ ...admittedKey, scopes: ['mcp:tools:execute'] });
      const after = await ask();

      expect(again).toBe(before);
      expect(after.scopes).toEqual(['mcp:tools:execute']);
    });

    test('admits nobody whom the store no longer finds', async () => {
      const own = remembering();
      await admit({ type: 'key', key }, place, own);
      byKey.mockResolvedValue(undefined);

      await expect(Promise.resolve(admit({ type: 'key', key }, place, own))).rejects.toEqual(
        refused('bad_credential'),
      );
    });

    test('of a token ends with that token, and is not that of another with its id', async () => {
      const own = remembering();
      const ask = async (token: string) => admit({ type: 'token', token }, place, own);
      const [token, narrower] = [tokenFor(), tokenFor({ scopes: ['mcp:tools:execute'] })];
      const { scopes } = await ask(token);
      const narrow = await ask(narrower);
      const again = await ask(token);
      clock.advance(3600);

      expect(narrow.scopes).toEqual(['mcp:tools:execute']);
      expect(again.scopes).toEqual(scopes);
      await expect(ask(token)).rejects.toEqual(refused('bad_credential'));
    });
  });

  describe('a member of a collection', () => {
    const kept: UpstreamKind<'collection'> = { kind: 'collection', members: [], names: [] };
    const collection = someServer({ id: 'srv_desk', name: 'desk', target: { upstream: kept } });
    const atDesk = { organization: 'acme', server: 'desk' };

    /** Admits a caller to the collection, and, in the same turn, a call of theirs to its member. */
    async function admitThrough(turn: Turn | undefined) {
      const proved = { type: 'key', keyHash: 'hash' } as const;
      const outer = await admitProved(proved, atDesk, ports(), turn);
      turn?.admitted(outer);
      // The object belongs to the admission, so that no other caller has the same one.
      const own = outer.proved.type === 'member' ? proved : outer.proved;
      const toMember = { type: 'member', collection: 'desk', proved: own } as const;
      return (over: Turn | undefined, name = place.server) =>
        admitProved(toMember, { ...place, server: name }, ports(), over);
    }

    beforeEach(() => {
      byKey.mockReset().mockReturnValue({ ...admittedKey, endpoint: collection });
      byMember.mockReset().mockReturnValue({ ...admittedClient, endpoint: server });
    });

    test('is admitted in the turn of the call with one look at the credential, and with another in a later turn', async () => {
      const turn = new Turn('1');
      const toMember = await admitThrough(turn);
      expect((await toMember(turn)).endpoint).toBe(server);
      expect(byKey).toHaveBeenCalledTimes(1);
      expect((await toMember(new Turn('1'))).endpoint).toBe(server);
      expect(byKey).toHaveBeenCalledTimes(2);
      expect((await toMember(undefined)).endpoint).toBe(server);
      expect(byKey).toHaveBeenCalledTimes(3);
    });

    test('is looked up once in a turn, and each member for itself', async () => {
      const turn = new Turn('1');
      const toMember = await admitThrough(turn);
      const admission = await toMember(turn);
      expect(await toMember(turn)).toBe(admission);
      expect(byMember).toHaveBeenCalledTimes(1);
      byMember.mockReturnValue(undefined);
      expect((await toMember(turn)).endpoint).toBe(server);
      await expect((async () => toMember(turn, 'tickets'))()).rejects.toEqual(
        refused('bad_credential'),
      );
      await expect((async () => toMember(new Turn('2')))()).rejects.toEqual(
        refused('bad_credential'),
      );
    });

    test('admits nobody whose key was revoked since', async () => {
      const toMember = await admitThrough(new Turn('1'));
      byKey.mockReturnValue(undefined);

      for (const turn of [new Turn('1'), undefined]) {
        await expect((async () => toMember(turn))()).rejects.toEqual(refused('bad_credential'));
      }
    });
  });

  test('a store that fails makes admission unavailable, and admits no one', async () => {
    byKey.mockRejectedValue(new Error('disk full'));
    byClient.mockRejectedValue(new Error('disk full'));

    await expect(withKey(mintSecret('mcp_'))).rejects.toEqual(refused('unavailable'));
    await expect(withToken(tokenFor())).rejects.toEqual(refused('unavailable'));
  });
});

describe('the presented credential', () => {
  const key = 'mcp_00000000000000000000000000000039wKZM';

  describe('a request presents', () => {
    test.each([
      ['a key in X-API-Key', ['X-API-Key', key], { type: 'key', key }],
      ['a key in a header of any case', ['x-api-KEY', key], { type: 'key', key }],
      ['a key as a bearer', ['Authorization', `Bearer ${key}`], { type: 'key', key }],
      ['a token', ['Authorization', 'Bearer e.y.J'], { type: 'token', token: 'e.y.J' }],
      ['a token after more blanks', ['authorization', 'bearer   t'], { type: 'token', token: 't' }],
      [
        'a token among other headers',
        ['Cookie', 'a', 'Authorization', 'Bearer t'],
        { type: 'token', token: 't' },
      ],
      ['an empty key, for the store to refuse', ['X-API-Key', ''], { type: 'key', key: '' }],
    ])('%s', (_, rawHeaders, credential) => {
      expect(presentedCredential(rawHeaders)).toEqual(credential);
    });
  });

  describe('a request is refused as', () => {
    test.each([
      ['no_credential', 'nothing', []],
      ['no_credential', 'a cookie alone', ['Cookie', `session=${key}`]],
      ['no_credential', 'a header whose value is called X-API-Key', ['Cookie', 'X-API-Key']],
      ['two_credentials', 'a key and a token', ['X-API-Key', key, 'Authorization', 'Bearer t']],
      ['two_credentials', 'the same key twice', ['X-API-Key', key, 'x-api-key', key]],
      ['two_credentials', 'two tokens', ['Authorization', 'Bearer a', 'Authorization', 'Bearer b']],
      ['two_credentials', 'a key and an empty header', ['X-API-Key', key, 'Authorization', '']],
      ['bad_credential', 'HTTP Basic', ['Authorization', 'Basic dXNlcjpwYXNz']],
      ['bad_credential', 'a bearer without a token', ['Authorization', 'Bearer ']],
      ['bad_credential', 'a bearer with two words', ['Authorization', 'Bearer a b']],
      ['bad_credential', 'a token without its scheme', ['Authorization', 'e.y.J']],
      ['bad_credential', 'an empty header', ['Authorization', '']],
    ])('%s for %s', (code, _, rawHeaders) => {
      expect(() => presentedCredential(rawHeaders)).toThrow(expect.objectContaining({ code }));
    });
  });
});
