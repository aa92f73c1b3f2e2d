import type { AccountsDoor, AddInput } from 'latchkey/accounts';
import type { InputOf, OperationName, Outcome, OutputOf, Overview } from '#contract';
import { assistantFacts } from '#assistant-facts';
import { secretWords } from '#secret-words';
import { outcomeOf, refused } from '#outcome-of';
import type { WindowName } from '#page-files';
import type { SignInAsk, SignInWaits } from '#sign-in-waits';

export type AnswersPorts = {
  door: AccountsDoor;
  waits: SignInWaits;
  overview: () => Overview;
  openWindow: (window: WindowName, name?: string) => void;
  openBrowser: (page: string) => Promise<boolean>;
  copyPrivately: (text: string) => Promise<void>;
};

/** What the program does for each question of a page. */
export type Answers = {
  [Name in OperationName]: (input: InputOf<Name>) => Promise<OutputOf<Name>>;
};

/** How long a server may take to say what it wants, or whether it takes a key. */
const askMs = 60_000;

export function answers(ports: AnswersPorts): Answers {
  const { door, waits, overview, openWindow, openBrowser, copyPrivately } = ports;
  const soon = () => ({ signal: AbortSignal.timeout(askMs) });
  const connection = (name: string) => overview().connections.find((one) => one.name === name);

  async function signIn(name: string, { signal, waits: tell }: SignInAsk): Promise<Outcome> {
    return outcomeOf(
      door
        .signIn(name, {
          signal,
          progress(now) {
            if (now.step === 'waiting') tell(now.page, now.browserOpened);
          },
        })
        .then(({ signedInAs }) =>
          signedInAs === undefined
            ? `You are signed in to ${name}. The server does not name the account.`
            : `You are signed in to ${name} as ${signedInAs}.`,
        ),
      name,
    );
  }

  return {
    overview: async () => overview(),
    async probe({ url }) {
      try {
        const { scopes = [], takes, ...found } = await door.probe(url, soon());
        return { ok: true, scopes: [...scopes], takes: [...takes], ...found };
      } catch (error) {
        return refused(error);
      }
    },
    async readPasted({ pastedText }) {
      try {
        const { scopes = [], ...read } = await door.readPasted(pastedText);
        return { ok: true, scopes: [...scopes], ...read };
      } catch (error) {
        return refused(error);
      }
    },
    async add(input) {
      const { name } = input;
      const added = await outcomeOf(
        door.add(addInput(input), soon()).then(({ checked }) => checked),
        name,
      );
      if (!added.ok) return added;
      if (added.message !== 'person') return done(`${name} is added: ${takenWords[added.message]}`);
      return waits.begin(name, async (ask) => signIn(name, ask));
    },
    remove: async ({ name }) => {
      const left = door.remove(name).then(({ notRevoked }) => removedWords(name, notRevoked));
      waits.forget(name);
      return outcomeOf(left, name);
    },
    signIn: async ({ name }) => waits.begin(name, async (ask) => signIn(name, ask)),
    cancelSignIn: async ({ name }) =>
      waits.cancel(name)
        ? done('The sign-in was cancelled.')
        : no('No sign-in is under way.', 'Begin one with Sign in.'),
    async copySignInAddress({ name }) {
      const address = waits.address(name);
      if (address === undefined) return no('No page waits any more.', 'Begin again with Sign in.');
      await copyPrivately(address);
      return done('Copied. The clipboard is cleared in a minute.');
    },
    signOut: async ({ name }) => {
      waits.forget(name);
      return outcomeOf(
        door.signOut(name).then((left) => signedOutWords(name, left)),
        name,
      );
    },
    reconnect: async ({ name }) =>
      outcomeOf(
        door.reconnect(name).then((heard) => reconnectWords(name, heard)),
        name,
      ),
    async rotate({ name, secret }) {
      const { as } = connection(name) ?? { as: 'api_key' };
      const rotating =
        as === 'api_key'
          ? door.rotateKey(name, secret, soon())
          : door.rotateSecret(name, secret, soon());
      const what = secretWords({ as });
      return outcomeOf(
        rotating.then(({ onTrial }) =>
          onTrial
            ? `The server takes the new ${what}, and it is stored. The old one is kept until a call has worked.`
            : `The server takes the new ${what}, and it is stored.`,
        ),
        name,
      );
    },
    undoRotation: async ({ name }) =>
      outcomeOf(
        door
          .undoRotation(name)
          .then((back) => (back ? `${name} uses the old one again.` : 'No old one is kept.')),
        name,
      ),
    assistants: async () => assistantFacts(door),
    install: async ({ assistant, name }) =>
      outcomeOf(
        door.install(assistant, name).then(({ backup }) => {
          const kept = backup === undefined ? '' : ` The file as it was: ${backup}`;
          return `Restart the assistant to use ${name}.${kept}`;
        }),
        name,
      ),
    uninstall: async ({ assistant, name }) =>
      outcomeOf(door.uninstall(assistant, name).then(({ did }) => uninstalledWords[did])),
    async importEntry({ assistant, entry }) {
      const file = (await door.assistants()).find(({ id }) => id === assistant)?.file;
      if (file === undefined) return no('There is no such assistant.', '');
      return outcomeOf(
        door
          .import(file, entry)
          .then(({ signInTakenOver }) =>
            signInTakenOver.length > 0
              ? `${entry} now starts Latchkey, and its sign-in came along.`
              : `${entry} now starts Latchkey.`,
          ),
      );
    },
    doctor: async () =>
      (await door.doctor()).map(({ check, state, what, hint = '' }) => ({
        check,
        state,
        what,
        hint,
      })),
    async openDashboard({ name }) {
      const dashboard = connection(name)?.dashboard;
      if (dashboard === undefined)
        return no(`No dashboard of ${name} is known.`, 'Ask whoever runs the server.');
      if (await openBrowser(dashboard)) return done('The dashboard opens in your browser.');
      return no('No browser could be opened.', `Open ${dashboard} yourself.`);
    },
    async openWindow({ window, name }) {
      openWindow(window, name);
      return done('');
    },
  };
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

const takenWords: Record<string, string> = {
  api_key: 'the server takes the key.',
  client: 'the server takes the client.',
  nobody: 'the server wants no credential.',
};

const uninstalledWords = {
  restored: 'The file is as it was before.',
  removed: 'The entry is taken out; whatever else changed meanwhile stays.',
  absent: 'There was no such entry.',
};

function removedWords(name: string, notRevoked: string | undefined): string {
  if (notRevoked === undefined) return `${name} is removed.`;
  return `${name} is removed from this machine. The server was not told: ${notRevoked}`;
}

function signedOutWords(
  name: string,
  { wasSignedIn, notRevoked }: { wasSignedIn: boolean; notRevoked?: string },
): string {
  if (!wasSignedIn) return `Nobody was signed in to ${name}.`;
  if (notRevoked === undefined)
    return `Signed out of ${name}: revoked at the server, forgotten here.`;
  return `Signed out of ${name} on this machine. The server was not told: ${notRevoked}. Revoke the access there.`;
}

function reconnectWords(name: string, heard: number): string {
  return heard === 0 ? `No assistant runs ${name} now.` : `${name} is tried again.`;
}

function done(message: string): Outcome {
  return { ok: true, message };
}

function no(problem: string, remedy: string): Outcome {
  return { ok: false, problem, remedy };
}
