import { createInterface } from 'node:readline';
import { homedir } from 'node:os';
import type { AddInput } from '#proxy/accounts/accounts-door';
import { AccountsError, openAccounts } from '#proxy/open-accounts';
import { launcher } from './proxy-process.ts';

/**
 * A process that does with the door what its standard input says, a JSON array a line:
 * `["rotateKey","work","mcp_…"]`. It answers each with a line, `{"value":…}` or `{"error":…}`.
 */
const door = openAccounts({
  platform: process.platform,
  home: homedir(),
  env: process.env,
  parentPid: process.ppid,
  node: process.versions.node,
  launcher: { node: process.execPath, script: launcher },
});

/** Only what the tests ask for; each takes what the line holds. */
const calls: Record<string, (...input: never[]) => Promise<unknown>> = {
  list: async () => door.listConnections(),
  probe: async (url: string) => door.probe(url),
  add: async (input: AddInput) => door.add(input),
  remove: async (name: string) => door.remove(name),
  signIn: async (name: string) => {
    const steps: string[] = [];
    const signedIn = await door.signIn(name, { progress: ({ step }) => steps.push(step) });
    return { ...signedIn, steps };
  },
  giveUpSignIn: async (name: string) => {
    const enough = new AbortController();
    const progress = ({ step }: { step: string }) => step === 'waiting' && enough.abort();
    return door.signIn(name, { progress, signal: enough.signal });
  },
  signOut: async (name: string) => door.signOut(name),
  reconnect: async (name: string) => door.reconnect(name),
  rotateKey: async (name: string, secret: string) => door.rotateKey(name, secret),
  rotateSecret: async (name: string, secret: string) => door.rotateSecret(name, secret),
  undoRotation: async (name: string) => door.undoRotation(name),
  reminders: async () => door.reminders(),
  assistants: async () => door.assistants(),
  install: async (assistant: string, name: string) => door.install(assistant, name),
  uninstall: async (assistant: string, name: string) => door.uninstall(assistant, name),
  importable: async () => door.importable(),
  import: async (file: string, entry: string) => door.import(file, entry),
  doctor: async (name: string) => door.doctor(name),
  claimNotice: async (name: string) => door.claimNotice(name),
};

const say = (answer: unknown) => process.stdout.write(`${JSON.stringify(answer)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...input]: [string, ...never[]] = JSON.parse(line);
  try {
    say({ value: (await calls[name]?.(...input)) ?? null });
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    const { code, message, hint } = error;
    say({ error: { code, message, hint } });
  }
}
