import { describe, expect, test } from 'vitest';
import { administrationWithServer, type Administration } from '#support/administration';

interface Made {
  readonly id: string;
  readonly key: string;
}

async function made(admin: Administration, ...argv: string[]): Promise<Made> {
  const document: Made = JSON.parse((await admin.run(...argv, '--json')).join('\n'));
  return document;
}

describe('agent create, list and revoke', () => {
  test('print the fields of the contract, and the pk_live_ key once', async () => {
    await using admin = await administrationWithServer();
    const document = await made(admin, 'agent', 'create', 'acme/hq');

    expect(document).toEqual({
      id: expect.stringMatching(/^agent_[0-9A-Za-z]{16}$/),
      name: 'hq',
      key: expect.stringMatching(/^pk_live_[0-9A-Za-z]{36}$/),
    });
    expect(await admin.json('agent', 'list', 'acme')).toEqual([
      {
        id: document.id,
        name: 'hq',
        key: `pk_live_…${document.key.slice(-4)}`,
        created_at: admin.clock.now(),
        last_used_at: null,
        expires_at: null,
        online: 'no',
        revoked_at: null,
      },
    ]);
    expect(await admin.json('agent', 'revoke', document.id)).toEqual({
      id: document.id,
      revoked_at: admin.clock.now(),
    });
    await expect(admin.run('agent', 'revoke', document.id)).rejects.toMatchObject({
      name: 'CommandError',
    });
  });

  test('print to a person that the key is shown only once', async () => {
    await using admin = await administrationWithServer();

    expect((await admin.run('agent', 'create', 'acme/hq')).at(-1)).toBe(
      'hint: store the key now; it is not shown again',
    );
  });

  test('refuse a taken name and an unknown organization', async () => {
    await using admin = await administrationWithServer();
    await admin.run('agent', 'create', 'acme/hq');

    await expect(admin.run('agent', 'create', 'acme/hq')).rejects.toThrow(
      'an agent acme/hq already exists',
    );
    await expect(admin.run('agent', 'create', 'other/hq')).rejects.toThrow(
      'organization other not found',
    );
    await expect(admin.run('agent', 'list', 'other')).rejects.toThrow(
      'organization other not found',
    );
  });
});
