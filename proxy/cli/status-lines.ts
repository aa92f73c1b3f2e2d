import type { AccountStatus } from '#auth/account-status';

const words = {
  api_key: 'by API key',
  client: 'as an OAuth client',
  person: 'as a person',
};

const nothing = [
  'no connection is configured',
  'hint: name a URL, as in latchkey status https://cloud.example.com/mcp/acme/sales',
];

/** One block a connection, one line a fact; problems are for connections that cannot be read. */
export function statusLines(
  statuses: readonly AccountStatus[],
  problems: readonly { name: string; problem: string }[],
  now: number,
): string[] {
  const blocks = statuses.flatMap((status) => {
    const { name, url, state, as, issuer, scope, signedInAs, expiresAt, renewable } = status;
    const facts = [
      `${name}: ${state === 'ready' ? `ready, ${words[as]}` : missing(as)}`,
      `  server ${url}`,
      signedInAs && `  signed in as ${signedInAs}`,
      issuer && `  issuer ${issuer}`,
      scope && `  scopes ${scope}`,
      expiresAt !== undefined && `  token ${tokenWords(expiresAt - now, renewable)}`,
      state === 'signed_out' && `  hint: ${remedy(status)}`,
    ];
    return facts.flatMap((fact) => (fact ? [fact] : []));
  });
  const troubles = problems.flatMap(({ name, problem }) => `${name}: ${problem}`.split('\n'));
  const all = [...blocks, ...troubles];
  return all.length > 0 ? all : nothing;
}

/** The same for machines. */
export function statusJson(
  statuses: readonly AccountStatus[],
  problems: readonly { name: string; problem: string }[],
): string {
  const connections = statuses.map(({ expiresAt, signedInAs, ...rest }) => ({
    ...rest,
    ...(signedInAs !== undefined && { signed_in_as: signedInAs }),
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
  }));
  return JSON.stringify({ connections, problems });
}

function missing(as: AccountStatus['as']): string {
  return as === 'api_key' ? 'its API key is not in the keychain' : 'signed out';
}

function remedy({ as, name, url }: AccountStatus): string {
  return as === 'api_key' ? `latchkey add ${name} ${url} --replace` : `latchkey login ${name}`;
}

function tokenWords(seconds: number, renewable: boolean): string {
  const then = renewable ? ', renewed by itself' : '';
  if (seconds <= 0) return `expired${then}`;
  return `expires in ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`}${then}`;
}
