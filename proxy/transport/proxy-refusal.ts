import type { IncomingMessage } from 'node:http';
import { HttpError } from './http-error.ts';
import type { ProxyRoute } from './proxy-route.ts';

/** The credentials that the proxy's URL carries. RFC 9110 §11.7.2 */
export function proxyAuthorization({ secretUrl }: ProxyRoute): Record<string, string> {
  const { username, password } = secretUrl;
  if (!username && !password) return {};
  const pair = `${decoded(username)}:${decoded(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}` };
}

/** What a proxy's refusal to lead us to `target` means. */
export function refusedByProxy(
  route: ProxyRoute,
  target: string,
  { statusCode = 0, headers, statusMessage = '' }: IncomingMessage,
): HttpError {
  const { origin, setting, secretUrl } = route;
  const said = `${statusCode} ${statusMessage}`.trim();
  if (statusCode !== 407)
    return new HttpError('proxy', `the proxy ${origin} refused the way to ${target}: ${said}`, {
      remedy: `ask whoever runs the proxy to allow ${target}, or name it in NO_PROXY`,
    });
  const schemes = headers['proxy-authenticate'] ?? '';
  const basic = schemes === '' || /(^|[\s,])basic\b/i.test(schemes);
  const known = secretUrl.username !== '';
  return new HttpError(
    'proxy',
    `the proxy ${origin} ${known ? 'does not accept the user and password' : 'wants a user and password'}: ${said}`,
    {
      remedy: basic
        ? `${known ? 'correct' : 'put'} them in ${inEnvironment(setting)}, as http://USER:PASSWORD@${secretUrl.host}`
        : `it takes ${schemes.split(/[\s,]/)[0]} only, which a local proxy such as px or cntlm can speak for you`,
    },
  );
}

export function unreachableProxy(
  { origin, setting }: ProxyRoute,
  reason: string,
  cause: unknown,
): HttpError {
  return new HttpError('proxy', `the proxy ${origin} (${setting}) cannot be reached: ${reason}`, {
    remedy: `check ${setting}, or name the hosts that need no proxy in NO_PROXY`,
    cause,
  });
}

/** Arguments are seen by every program of the machine, so a password belongs elsewhere. */
function inEnvironment(setting: string): string {
  return setting === '--proxy' ? 'LATCHKEY_PROXY' : setting;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
