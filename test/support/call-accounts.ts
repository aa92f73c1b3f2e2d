import type { AccountsService, AddInput } from '#proxy/connections/accounts-service';

type Service = Omit<AccountsService, 'doctor'> & Partial<AccountsService>;

/** Calls the accounts service as a line of JSON says, an array: `["rotateKey","work","mcp_…"]`. */
export async function callAccounts(service: Service, line: string): Promise<unknown> {
  const [name, ...input]: [string, ...never[]] = JSON.parse(line);
  const call = calls(service)[name];
  if (!call) throw new TypeError(`no test called ${name} before: add it to the list`);
  return call(...input);
}

/** Only the methods that tests call; each takes what the line contains. */
function calls(service: Service): Record<string, (...input: never[]) => Promise<unknown>> {
  return {
    list: async () => service.listConnections(),
    /** The first views that a watcher gets. */
    look: async () => {
      for await (const views of service.watch(new AbortController().signal)) return views;
      return [];
    },
    probe: async (url: string) => service.probe(url),
    add: async (input: AddInput) => service.add(input),
    remove: async (name: string) => service.remove(name),
    signIn: async (name: string) => {
      const steps: string[] = [];
      const signedIn = await service.signIn(name, { progress: ({ step }) => steps.push(step) });
      return { ...signedIn, steps };
    },
    giveUpSignIn: async (name: string) => {
      const enough = new AbortController();
      const progress = ({ step }: { step: string }) => step === 'waiting' && enough.abort();
      return service.signIn(name, { progress, signal: enough.signal });
    },
    signOut: async (name: string) => service.signOut(name),
    signInCompany: async (name: string) => {
      const steps: string[] = [];
      const progress = ({ step }: { step: string }) => void steps.push(step);
      return { ...(await service.signInCompany(name, { progress })), steps };
    },
    signOutCompany: async (name: string) => service.signOutCompany(name),
    setUp: async (url: string) => service.setUp(url, {}),
    myServers: async () => service.myServers(),
    devices: async () => service.devices(),
    signOutDevice: async (list: string, id: string) => service.signOutDevice(list, id),
    reconnect: async (name: string) => service.reconnect(name),
    rotateKey: async (name: string, secret: string) => service.rotateKey(name, secret),
    rotateSecret: async (name: string, secret: string) => service.rotateSecret(name, secret),
    undoRotation: async (name: string) => service.undoRotation(name),
    rename: async (from: string, to: string) => service.rename(from, to),
    assistants: async () => service.assistants(),
    install: async (assistant: string, name: string) => service.install(assistant, name),
    uninstall: async (assistant: string, name: string) => service.uninstall(assistant, name),
    importable: async () => service.importable(),
    import: async (file: string, entry: string) => service.import(file, entry),
    doctor: async (name: string) => service.doctor?.(name),
    claimNotice: async (name: string) => service.claimNotice(name),
  };
}
