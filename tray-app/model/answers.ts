import type {
  AccountsService,
  AddInput,
  Renamed,
  ServerListView as ServerList,
} from 'latchkey/accounts';
import {
  checkedWords,
  companySignedInWords,
  companySignedOutWords,
  reconnectWords,
  removedWords,
  setUpWords,
  signedInWords,
  signedOutWords,
  uninstalledWords,
} from './answer-words.ts';
import {
  question,
  shapes,
  type AssistantView,
  type ConnectionView,
  type InputOf,
  type OperationName,
  type Outcome,
  type OutputOf,
  type Overview,
  type ServerListView,
} from './contract.ts';
import { failureOf, outcomeOf, refused, type Report } from './outcome.ts';
import { companyAddress, setUpName } from './set-up.ts';
import type { SignInProgress, SignIns } from './sign-ins.ts';
import { listOf, secretWords } from './state.ts';
import type { WindowName } from './windows.ts';

export type AnswersPorts = {
  accounts: AccountsService;
  signIns: SignIns;
  overview: () => Overview;
  openWindow: (window: WindowName, name?: string) => void;
  openBrowser: (page: string) => Promise<boolean>;
  /** Opens a text file in the user's editor. */
  openFile: (path: string) => Promise<boolean>;
  copySecret: (text: string) => Promise<void>;
};

/** A function for each operation that a page may request. */
export type Answers = {
  [Name in OperationName]: (input: InputOf<Name>) => Promise<OutputOf<Name>>;
};

/** How long a server may take to describe itself, or to check a credential. */
const serverTimeoutMs = 60_000;

export function answers(ports: AnswersPorts): Answers {
  return {
    ...connectionAnswers(ports),
    ...signInAnswers(ports),
    ...serverAnswers(ports),
    ...assistantAnswers(ports),
    ...appAnswers(ports),
  };
}

const limited = () => ({ signal: AbortSignal.timeout(serverTimeoutMs) });

/** Signs in to a connection. The pages show `progress`. */
async function signIn(
  name: string,
  progress: SignInProgress,
  accounts: AccountsService,
): Promise<Outcome> {
  return outcomeOf(
    accounts.signIn(name, inPages(progress)).then((signedIn) => signedInWords(name, signedIn)),
    name,
  );
}

/** The options of a sign-in that reports to `progress` which browser page it waits for. */
function inPages({ signal, waiting }: SignInProgress): Parameters<AccountsService['signIn']>[1] {
  return {
    signal,
    progress(now) {
      if (now.step === 'waiting') waiting(now.page, now.browserOpened);
    },
  };
}

function connectionAnswers({ accounts, signIns, overview }: AnswersPorts) {
  return {
    async probe({ url }) {
      try {
        const { scopes = [], takes, ...found } = await accounts.probe(url, limited());
        return { ok: true, scopes: [...scopes], takes: [...takes], ...found };
      } catch (error) {
        return refused(error);
      }
    },
    async readPasted({ pastedText }) {
      try {
        const { scopes = [], ...read } = await accounts.readPasted(pastedText);
        return { ok: true, scopes: [...scopes], ...read };
      } catch (error) {
        return refused(error);
      }
    },
    async add(input) {
      const { name } = input;
      try {
        const { checked } = await accounts.add(addInput(input), limited());
        if (checked !== 'person') return done(`${name} was added: ${checkedWords(checked)}`);
      } catch (error) {
        return refused(error, name);
      }
      return signIns.begin(name, async (progress) => signIn(name, progress, accounts));
    },
    remove: async ({ name }) => {
      const left = accounts.remove(name).then((removed) => removedWords(name, removed));
      signIns.forget(name);
      return outcomeOf(left, name);
    },
    async rename({ name, to }) {
      try {
        const { assistants } = await accounts.rename(name, to);
        signIns.forget(name);
        return renamedOutcome(name, to, assistants);
      } catch (error) {
        return refused(error, name, to);
      }
    },
    reconnect: async ({ name }) =>
      outcomeOf(
        accounts.reconnect(name).then((proxies) => reconnectWords(name, proxies)),
        name,
      ),
    async rotate({ name, secret }) {
      const { as } = connectionOf(name, overview()) ?? { as: 'api_key' };
      const rotating =
        as === 'api_key'
          ? accounts.rotateKey(name, secret, limited())
          : accounts.rotateSecret(name, secret, limited());
      const what = secretWords({ as });
      return outcomeOf(
        rotating.then(({ onTrial }) =>
          onTrial
            ? `The server accepts the new ${what}. Latchkey stored it, and keeps the old one until a call succeeds.`
            : `The server accepts the new ${what}, and Latchkey stored it.`,
        ),
        name,
      );
    },
    undoRotation: async ({ name }) =>
      outcomeOf(
        accounts
          .undoRotation(name)
          .then((back) =>
            back ? `${name} uses the old one again.` : 'The old one is no longer available.',
          ),
        name,
      ),
  } satisfies Partial<Answers>;
}

/** The operations on sign-ins. */
function signInAnswers({ accounts, signIns, copySecret }: AnswersPorts) {
  return {
    signIn: async ({ name }) =>
      signIns.begin(name, async (progress) => signIn(name, progress, accounts)),
    cancelSignIn: async ({ name }) =>
      signIns.cancel(name)
        ? done('The sign-in was cancelled.')
        : no('No sign-in is in progress.', 'Start one with Sign in.'),
    async copySignInAddress({ name }) {
      const address = signIns.address(name);
      if (address === undefined)
        return no('The sign-in is no longer waiting.', 'Start again with Sign in.');
      await copySecret(address);
      return done('Copied. The clipboard is cleared in a minute.');
    },
    signOut: async ({ name }) => {
      signIns.forget(name);
      return outcomeOf(
        accounts.signOut(name).then((left) => signedOutWords(name, left)),
        name,
      );
    },
    signInCompany: async ({ name }) =>
      signIns.begin(name, async (progress) =>
        outcomeOf(accounts.signInCompany(name, inPages(progress)).then(companySignedInWords), name),
      ),
    signOutCompany: async ({ name }) => {
      signIns.forget(name);
      return outcomeOf(accounts.signOutCompany(name).then(companySignedOutWords), name);
    },
  } satisfies Partial<Answers>;
}

/** The operations on the servers and devices of the user at Latchkey servers. */
function serverAnswers({ accounts, signIns, openBrowser }: AnswersPorts) {
  // The only URLs that `openPage` opens, so that a page cannot open any other in the browser.
  let pages = new Set<string>();
  return {
    async servers() {
      const lists = (await accounts.myServers()).map(toServerListView);
      pages = new Set(
        lists.flatMap(({ servers, askable }) => [
          ...servers.flatMap(({ accountUrl }) => accountUrl ?? []),
          ...askable.map(({ askUrl }) => askUrl),
        ]),
      );
      return lists;
    },
    setUp: async ({ url, choose }) =>
      signIns.begin(setUpName, async (progress) =>
        outcomeOf(
          accounts.setUp(companyAddress(url), { choose, ...inPages(progress) }).then(setUpWords),
        ),
      ),
    async openPage({ url }) {
      if (!pages.has(url)) return no('This page is unknown.', 'Open the dashboard in a browser.');
      if (await openBrowser(url)) return done('The page opened in your browser.');
      return no('No browser could be opened.', `Open ${url} in a browser.`);
    },
    devices: async () =>
      (await accounts.devices()).map(({ list, url, problem = '', devices }) => ({
        list,
        url,
        problem,
        devices: devices.map((device) => {
          const { id, name, system, isCurrent, lastUsedAt } = device;
          return {
            id,
            name,
            system,
            isCurrent,
            assistants: [...device.assistants],
            servers: [...device.servers],
            ...(lastUsedAt !== undefined && { lastUsedAt }),
          };
        }),
      })),
    signOutDevice: async ({ list, id }) =>
      outcomeOf(
        accounts
          .signOutDevice(list, id)
          .then((isDone) =>
            isDone
              ? 'The device was signed out. What Latchkey there could use has ended.'
              : 'The device was signed out already.',
          ),
      ),
  } satisfies Partial<Answers>;
}

function toServerListView({
  url,
  signedInAs,
  problem = '',
  servers,
  askable,
  withdrawn,
}: ServerList): ServerListView {
  return {
    url,
    ...(signedInAs !== undefined && { signedInAs }),
    problem,
    servers: servers.map(({ title, description, connection, assistants, uses, ...server }) => {
      const { accountUrl, requires } = server;
      return {
        title,
        description,
        state:
          assistants.length > 0 ? 'in_use' : connection === undefined ? 'available' : 'connected',
        assistants: [...assistants],
        elsewhere: uses.flatMap(({ assistant, device }) =>
          device && !device.isCurrent ? [`${assistant} on ${device.name}`] : [],
        ),
        ...(requires && connection !== undefined && { lacks: { what: requires, connection } }),
        ...(server.needs && accountUrl !== undefined && { needs: server.needs, accountUrl }),
      };
    }),
    askable: askable.map(({ title, description, askUrl, request }) => {
      const asked = request?.status ?? 'no';
      return { title, description, askUrl, asked, answer: request?.answer ?? '' };
    }),
    withdrawn: withdrawn.map(({ name, removed }) => {
      const from = listOf(removed.map(({ title }) => title));
      return `${name} was withdrawn: you have no access to it any more.${from === '' ? '' : ` It was removed from ${from}.`}`;
    }),
  };
}

/** The operations on assistants and their files. */
function assistantAnswers({ accounts, openFile }: AnswersPorts) {
  return {
    assistants: async () => assistantViews(accounts),
    install: async ({ assistant, name }) =>
      outcomeOf(
        accounts.install(assistant, name).then(({ backup, note }) => {
          const known = note === undefined ? '' : ` ${note}.`;
          const kept = backup === undefined ? '' : ` Backup: ${backup}`;
          return `Restart the assistant to use ${name}.${known}${kept}`;
        }),
        name,
      ),
    uninstall: async ({ assistant, name }) =>
      outcomeOf(
        accounts.uninstall(assistant, name).then(({ did }) => uninstalledWords[did]),
        name,
      ),
    async importEntry({ assistant, entry }) {
      const file = (await accounts.assistants()).find(({ id }) => id === assistant)?.file;
      if (file === undefined) return no('The assistant was not found.', '');
      return outcomeOf(
        accounts
          .import(file, entry)
          .then(({ signInRequired }) =>
            signInRequired.length > 0
              ? `${entry} now starts Latchkey. Sign in to it again: the sign-in of mcp-remote is not carried over.`
              : `${entry} now starts Latchkey.`,
          ),
        entry,
      );
    },
    async openAssistantFile({ assistant }) {
      const file = (await accounts.assistants()).find(({ id }) => id === assistant)?.file;
      if (file === undefined) return no('The assistant was not found.', '');
      if (await openFile(file)) return done('The file opened in your editor.');
      return no('No program could open the file.', `Open ${file} in an editor.`);
    },
  } satisfies Partial<Answers>;
}

/** The operations on the app itself. */
function appAnswers({ accounts, overview, openWindow, openBrowser }: AnswersPorts) {
  return {
    overview: async () => overview(),
    doctor: async () =>
      (await accounts.doctor()).map(({ check, state, what, hint = '' }) => ({
        check,
        state,
        what,
        hint,
      })),
    async openDashboard({ name }) {
      const dashboard = connectionOf(name, overview())?.dashboard;
      if (dashboard === undefined)
        return no(`The dashboard of ${name} is unknown.`, 'Ask the administrator of the server.');
      if (await openBrowser(dashboard)) return done('The dashboard opened in your browser.');
      return no('No browser could be opened.', `Open ${dashboard} in a browser.`);
    },
    async openWindow({ window, name }) {
      openWindow(window, name);
      return done('');
    },
  } satisfies Partial<Answers>;
}

function connectionOf(name: string, { connections }: Overview): ConnectionView | undefined {
  return connections.find((one) => one.name === name);
}

/** Each assistant with the connections that it starts and the entries that can be imported. */
async function assistantViews(accounts: AccountsService): Promise<AssistantView[]> {
  const [assistants, { entries }] = await Promise.all([
    accounts.assistants(),
    accounts.importable(),
  ]);
  return assistants.map(({ id, title, file, found, starts, problem = '' }) => ({
    id,
    title,
    file,
    found,
    problem,
    installed: [...starts],
    importable: entries
      .filter((one) => one.file === file)
      .map(({ entry, url, fromMcpRemote }) => ({ entry, url, fromMcpRemote })),
  }));
}

function addInput({ name, url, credential }: InputOf<'add'>): AddInput {
  switch (credential.as) {
    case 'pasted':
      return { name, url, as: 'pasted', oauthText: credential.pastedText };
    case 'person': {
      const { clientId } = credential;
      return { name, url, as: 'person', ...(clientId !== undefined && { clientId }) };
    }
    case 'client':
    case 'api_key':
      return { name, url, ...credential };
  }
}

/** If a file could not be changed, its assistant still starts the old name, and the person can rename again to retry. */
function renamedOutcome(name: string, to: string, assistants: Renamed['assistants']): Outcome {
  const failed = assistants.find(({ problem }) => problem !== undefined);
  if (failed)
    return no(
      `${name} is now ${to}, but ${failed.title} still starts ${name}: ${failed.problem}`,
      'Fix the problem, then rename it again.',
    );
  const titles = listOf(assistants.map(({ title }) => title));
  return done(`${name} is now ${to}.${titles === '' ? '' : ` Restart ${titles}.`}`);
}

function done(message: string): Outcome {
  return { ok: true, message };
}

function no(problem: string, remedy: string): Outcome {
  return { ok: false, problem, remedy };
}

/**
 * Answers the request of a page. The contract checks both the request and the answer. An error becomes a failure if the
 * operation can answer with one.
 *
 * @throws {ZodError} if the request does not match the contract
 * @throws the original error if the output of the operation has no place for a failure
 */
export async function answer(request: unknown, all: Answers, report: Report): Promise<unknown> {
  const { operation, input } = question.parse(request);
  return perform(operation, input, all, report);
}

async function perform<Name extends OperationName>(
  operation: Name,
  input: unknown,
  all: Answers,
  report: Report,
): Promise<OutputOf<Name>> {
  const { input: shape, output } = shapes[operation];
  const checked = shape.parse(input);
  try {
    return output.parse(await all[operation](checked));
  } catch (error) {
    const failure = output.safeParse(failureOf(error, report));
    if (failure.success) return failure.data;
    throw error;
  }
}
