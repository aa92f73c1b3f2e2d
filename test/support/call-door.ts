import type { AccountsService, AddInput } from '#proxy/auth/accounts-service';

type Door = Omit<AccountsService, 'doctor'> & Partial<AccountsService>;

/** Does with the door what a line says, a JSON array: `["rotateKey","work","mcp_…"]`. */
export async function callDoor(door: Door, line: string): Promise<unknown> {
  const [name, ...input]: [string, ...never[]] = JSON.parse(line);
  const call = calls(door)[name];
  if (!call) throw new TypeError(`no test has asked the door for ${name} before`);
  return call(...input);
}

/** Only what the tests ask for; each takes what the line holds. */
function calls(door: Door): Record<string, (...input: never[]) => Promise<unknown>> {
  return {
    list: async () => door.listConnections(),
    /** What whoever watches sees first. */
    look: async () => {
      for await (const views of door.watch(new AbortController().signal)) return views;
      return [];
    },
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
    doctor: async (name: string) => door.doctor?.(name),
    claimNotice: async (name: string) => door.claimNotice(name),
  };
}
