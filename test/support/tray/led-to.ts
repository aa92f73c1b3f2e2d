import { z } from 'zod';

const entries = z.object({
  mcpServers: z
    .record(
      z.string(),
      z.object({
        // An entry that starts a program has no URL.
        url: z.string().optional(),
        account: z.string().default(''),
        headers: z.record(z.string(), z.string()).optional(),
        apiKey: z.string().optional(),
        oauth: z
          .object({ clientId: z.string().optional(), clientSecret: z.string().optional() })
          .optional(),
      }),
    )
    .default({}),
});

/** Returns a function that tells whether a connection in the configuration file refers to an account of the keychain. */
export function ledTo(configuration: string): (account: string) => boolean {
  const all = Object.values(entries.parse(JSON.parse(configuration)).mcpServers);
  return (account) => {
    // Such an entry tests whether a keychain exists; it is no secret.
    if (account.startsWith('probe ')) return true;
    // The computer has one id at all servers, which no connection owns.
    if (account === 'device id') return true;
    const [, kind = '', words = '[]'] = /^(?:prior )?([a-z ]+?) (\[.*\])/.exec(account) ?? [];
    const [url, second = '', ...rest] = z.array(z.string()).parse(JSON.parse(words));
    const here = all.filter((one) => one.url === url);
    switch (kind) {
      case 'api key':
        return here.some((one) => one.apiKey === 'keychain' && one.account === second);
      case 'header':
        return here.some(
          (one) => one.account === second && one.headers?.[rest[0] ?? ''] === 'keychain',
        );
      case 'client secret':
        return here.some(({ oauth }) => oauth?.clientSecret && oauth.clientId === second);
      case 'access token':
      case 'refresh token':
        return here.some(
          (one) =>
            !one.apiKey && (one.oauth?.clientId ?? '') === second && rest.includes(one.account),
        );
      default:
        return false;
    }
  };
}
