import { expect, test } from 'vitest';
import { helperEnvironment } from '#proxy/config/options';

test('environment: other programs are started without Latchkey’s own variables', () => {
  const env = {
    PATH: '/bin',
    HTTPS_PROXY: 'http://proxy.example:3128',
    MY_LATCHKEY_NOTE: 'mine',
    LATCHKEY_OAUTH: '{"clientSecret":"secret"}',
    LATCHKEY_API_KEY: 'key',
    LATCHKEY_PRIVATE_KEY_PASSPHRASE: 'passphrase',
    LATCHKEY_CLIENT_KEY_PASSPHRASE: 'passphrase',
    Latchkey_Client_Secret: 'as Windows may spell it',
  };

  expect(helperEnvironment(env)).toEqual({
    PATH: '/bin',
    HTTPS_PROXY: 'http://proxy.example:3128',
    MY_LATCHKEY_NOTE: 'mine',
  });
});
