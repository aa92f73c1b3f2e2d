import { UsageError } from '#config/errors';
import { secretFor } from './add.ts';
import { connectionOptions, type Command, type CommandInput } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';

/** `latchkey rotate NAME`. */
export const rotateCommand: Command = {
  name: 'rotate',
  operands: 'NAME',
  summary: 'replace the API key or client secret of a connection',
  about: `Asks for a new API key or client secret, or reads it from standard input, and checks it at the server before it
stores it. The old one stays in the keychain until a call with the new one succeeds; until then, --undo puts it back.
Revoke the old one in the dashboard afterwards.`,
  flags: {
    undo: { doc: 'use the old one again' },
    json: { doc: 'print one JSON object' },
  },
  options: connectionOptions,
  examples: ['latchkey rotate sales', 'latchkey rotate sales --json <key.txt'],
  async run(input, host) {
    await (input.flags.has('undo') ? undo(input, host) : rotate(input, host));
    return 0;
  },
};

const kinds = {
  api_key: { what: 'API key', variable: 'LATCHKEY_API_KEY' },
  client_secret: { what: 'client secret', variable: 'LATCHKEY_CLIENT_SECRET' },
} as const;

/** Runs `latchkey rotate`. Nothing changes if the server refuses the new secret. */
async function rotate(input: CommandInput, host: CommandHost): Promise<void> {
  const [name = ''] = input.operands;
  const connections = connectionsOf(host, input.options);
  const kind = await connections.rotatableSecret(name);
  const { what, variable } = kinds[kind];
  const next = await secretFor(what, variable, host);
  const { connection, secret } = await connections.rotate(name, next, { signal: host.stop() });
  const { url } = connection;
  const { onTrial = false, dashboardUrl = '' } = secret ?? {};
  if (input.flags.has('json')) {
    const rotated = { name, url, kind, on_trial: onTrial, dashboard_url: dashboardUrl };
    return host.print(JSON.stringify(rotated));
  }
  host.print(`stored the new ${what} of ${name} (${url}); the server accepts it`);
  if (onTrial)
    host.warn(
      `the old one stays until a call succeeds; latchkey rotate ${name} --undo restores it`,
    );
  host.warn(`next: revoke the old one in the dashboard: ${dashboardUrl}`);
}

/** @throws {UsageError} if there is no old secret to put back */
async function undo(input: CommandInput, host: CommandHost): Promise<void> {
  const [name = ''] = input.operands;
  const undone = await connectionsOf(host, input.options).undoRotation(name);
  if (!undone)
    throw new UsageError(
      `the old secret of ${name} is no longer available`,
      `latchkey rotate ${name} stores a new one`,
    );
  if (input.flags.has('json')) return host.print(JSON.stringify({ name, undone }));
  host.print(`${name} uses the old one again`);
}
