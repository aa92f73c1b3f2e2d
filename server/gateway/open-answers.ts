import type { Scope } from '#credentials/scope';
import type { Admission } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';

const checkEveryMs = 500;
/** Of one whom `countedFor` names: what only listens leaves room for calls. */
const maxEndless = 512;

interface OpenAnswer {
  readonly admission: Admission;
  readonly controller: AbortController;
  endless: boolean;
}

/**
 * Whom an exchange is counted for: a key, or what a client does for one person. A client that many
 * people use is no reason for one of them to wait for another.
 */
export function countedFor({ credential, principal }: Admission): string {
  return credential.type === 'key' ? credential.id : principal;
}

/** What an exchange tells of itself. */
export interface OpenAnswerHandle {
  /** It listens: its answer has no end of its own. @throws {GatewayRefusal} `too_many_requests` */
  readonly endless: () => void;
  readonly over: () => void;
}

/**
 * The exchanges that are under way, each with the credential that let it in. Twice a second every such
 * credential is looked up again, and what it no longer opens is ended: a revocation reaches open
 * streams within a second, whoever made it and wherever. What listens ends with any of its scopes, as it is to
 * hear less: its caller opens it anew. A call that was allowed is answered.
 */
export class OpenAnswers {
  readonly #open = new Map<string, Set<OpenAnswer>>();
  /** What is being looked up, by `lookedUpAs`: nothing is, twice at a time. */
  readonly #looking = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = setInterval(() => void this.#check(), checkEveryMs).unref();
  }

  /** How many exchanges are open for one whom `countedFor` names. */
  count(id: string): number {
    return this.#open.get(id)?.size ?? 0;
  }

  add(admission: Admission, controller: AbortController): OpenAnswerHandle {
    const id = countedFor(admission);
    const answers = this.#open.get(id) ?? new Set();
    this.#open.set(id, answers);
    const answer: OpenAnswer = { admission, controller, endless: false };
    answers.add(answer);
    return {
      endless: () => {
        checkEndless(answers);
        answer.endless = true;
      },
      over: () => {
        answers.delete(answer);
        if (answers.size === 0 && this.#open.get(id) === answers) this.#open.delete(id);
      },
    };
  }

  /** Ends the exchanges that would go on for ever, as a server that drains must. */
  endEndless(): void {
    this.#each(({ endless, controller }) => endless && controller.abort());
  }

  endAll(): void {
    this.#each(({ controller }) => controller.abort());
  }

  close(): void {
    clearInterval(this.#timer);
    this.endAll();
  }

  #each(act: (answer: OpenAnswer) => void): void {
    for (const answers of this.#open.values()) for (const answer of answers) act(answer);
  }

  /** All at once: a look that takes long holds up nobody's end but its own. */
  async #check(): Promise<void> {
    const due = new Map<string, [OpenAnswer, ...OpenAnswer[]]>();
    this.#each((answer) => {
      const name = lookedUpAs(answer.admission);
      if (this.#looking.has(name)) return;
      const others = due.get(name);
      if (others) others.push(answer);
      else due.set(name, [answer]);
    });
    await Promise.all([...due].map(([name, answers]) => this.#lookUp(name, answers)));
  }

  async #lookUp(name: string, answers: readonly [OpenAnswer, ...OpenAnswer[]]): Promise<void> {
    this.#looking.add(name);
    const now = await scopesNow(answers[0].admission);
    this.#looking.delete(name);
    for (const { admission, endless, controller } of answers) {
      const mayLess = now && endless && !admission.scopes.every((scope) => now.includes(scope));
      if (!now || mayLess) controller.abort();
    }
  }
}

/** A person is the same at every server, and may be a member of the organization of one alone. */
function lookedUpAs({ reference, server }: Admission): string {
  return `${reference} ${server.id}`;
}

function checkEndless(answers: ReadonlySet<OpenAnswer>): void {
  const listening = [...answers].filter(({ endless }) => endless).length;
  if (listening < maxEndless) return;
  throw new GatewayRefusal('too_many_requests', {
    detail: `this credential listens by ${maxEndless} streams already`,
    retryAfterSeconds: 1,
  });
}

/** A store that cannot be asked ends nothing yet: the exchange was let in, and the next check is near. */
async function scopesNow(admission: Admission): Promise<readonly Scope[] | undefined> {
  try {
    return await admission.scopesNow();
  } catch {
    return admission.scopes;
  }
}
