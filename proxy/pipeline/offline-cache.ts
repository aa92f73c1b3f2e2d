import { listKinds, listMethod } from './list-methods.ts';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import { modernVersion, type Message, answerTo, stringAt, textAt } from 'latchkey-mcp/raw-message';
import { type CachedAnswers, question, RememberedAnswers } from './cached-answers.ts';
import { Contact, type Presence, type Trouble } from './contact.ts';
import { idOf, madeMessage } from './messages.ts';
import type { ToolSubject } from './offline-answers.ts';
import {
  AssistantNotifier,
  OfflineHandshake,
  OfflineLists,
  ownToolFor,
  type AssistantView,
  type OfflineParts,
} from './offline-requests.ts';
import type { Step } from './step.ts';
import type { SignInPage } from '#auth/sign-in-service';
import { ElicitedPages, type OwnTool, type PersonSignIn } from './sign-in-page.ts';
import { UpstreamError } from '#transport/upstream';
import { troubled, Waiting } from './waiting.ts';

type OfflineCacheOptions = Pick<
  OfflineParts,
  'name' | 'url' | 'troubleOf' | 'signInService' | 'clock' | 'log'
> & {
  answers: CachedAnswers;
  /** Describes a failure, with its remedy. */
  explain: (error: unknown) => string;
  presence?: Presence;
  random?: () => number;
};

/**
 * Answers in place of a server that cannot be used, with the handshake and lists from the last run. Meanwhile the server is
 * tried until it can be used again, and then the assistant is notified that lists may have changed. If a person has to sign in,
 * the list of tools contains one that starts the sign-in.
 */
export class OfflineCache implements Step {
  readonly name = 'offline cache';
  readonly #options: OfflineCacheOptions;
  #contact: Contact | undefined;

  constructor(options: OfflineCacheOptions) {
    this.#options = options;
  }

  on(next: Upstream): Upstream {
    const cached = new CachedUpstream(this.#options, next);
    this.#contact = cached.contact;
    return cached;
  }

  /** Looks again for a sign-in, because a person may have signed in with another process. */
  async signedInElsewhere(): Promise<void> {
    await this.#options.signInService?.lookAgain();
    this.#contact?.nudge();
  }

  /** Tries the server immediately. */
  tryNow(): void {
    this.#contact?.tryNow();
  }
}

class CachedUpstream implements Upstream {
  readonly contact: Contact;
  readonly #upstream: Upstream;
  readonly #log: Log;
  readonly #memory: RememberedAnswers;
  readonly #notifier = new AssistantNotifier();
  readonly #pages = new ElicitedPages(async (message) => this.#notifier.deliver(message));
  readonly #view: AssistantView = { sentTools: 'none', fromCache: new Set(), absent: new Set() };
  readonly #handshake: OfflineHandshake;
  readonly #list: OfflineLists;
  readonly #call: Upstream['send'];

  constructor(options: OfflineCacheOptions, upstream: Upstream) {
    this.#upstream = upstream;
    this.#log = options.log;
    this.#memory = new RememberedAnswers(options.answers);
    this.contact = this.#openContact(options);
    const parts = {
      ...options,
      upstream,
      contact: this.contact,
      waiting: new Waiting({ ...options, contact: this.contact }),
      memory: this.#memory,
      notifier: this.#notifier,
      assistantView: this.#view,
      pages: this.#pages,
    };
    this.#handshake = new OfflineHandshake(parts);
    this.#list = new OfflineLists(parts);
    this.#call = offlineCalls(parts);
  }

  send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { kind, method } = message;
    if (kind === 'request') return this.#request(message, deliver, signal);
    if (kind === 'response' && this.#pages.take(message)) return Promise.resolve();
    if (method === 'notifications/initialized' && this.contact.holdBack(message))
      return Promise.resolve();
    if (this.contact.needsHandshake()) {
      this.#log.debug('message dropped, as the server is unreachable', { what: method });
      return Promise.resolve();
    }
    return this.#upstream.send(message, deliver, signal);
  }

  async listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { life } = this.contact;
    this.#notifier.to(deliver, 'session');
    if (this.contact.needsHandshake()) await this.contact.back(AbortSignal.any([signal, life]));
    if (!signal.aborted && !life.aborted) await this.#upstream.listen(deliver, signal);
  }

  async close(signal: AbortSignal): Promise<void> {
    this.contact.close();
    await Promise.all([this.#upstream.close(signal), this.#memory.saved()]);
  }

  #request(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { method } = request;
    if (method === 'tools/call') return this.#call(request, deliver, signal);
    if (method === 'initialize' && modernVersion(request) === undefined)
      return this.#handshake.respond(request, deliver, signal);
    const listed = listMethod(method);
    if (listed || method === 'server/discover')
      return this.#list.respond(request, listed, deliver, signal);
    if (method === 'subscriptions/listen') return this.#subscribe(request, deliver, signal);
    return this.#call(request, deliver, signal);
  }

  /** Waits until the server can be used. If that took time, reports all lists as changed after the server's first message. */
  async #subscribe(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    this.#notifier.to(deliver, 'stateless');
    let isBehind = this.contact.trouble() !== undefined;
    await this.contact.back(signal);
    if (signal.aborted) return;
    const take: Deliver = async (message) => {
      await deliver(message);
      if (!isBehind || message.kind === 'response') return;
      isBehind = false;
      await this.#notifier.changed(listKinds);
    };
    const subscription = this.#notifier.subscribed(idOf(request), deliver);
    try {
      await this.#upstream.send(request, take, signal);
    } finally {
      subscription.closed();
    }
  }

  #openContact(options: OfflineCacheOptions): Contact {
    const view = this.#view;
    return new Contact({
      ...options,
      upstream: this.#upstream,
      deliver: async (message) => this.#notifier.deliver(message),
      onHandshake: (answer) => {
        if (view.initialize) this.#memory.keep(question(view.initialize, view.initialize), answer);
        this.#handshake.compare(answer);
      },
      onTrouble: (trouble) => {
        const own = ownToolFor(trouble, options.signInService);
        if (own !== undefined && !['none', own].includes(view.sentTools))
          void this.#notifier.changed(['tools']);
      },
      onRecovered: () => {
        const kinds = [...view.fromCache].filter((kind) => !view.absent.has(kind));
        view.fromCache.clear();
        void this.#notifier.changed(kinds);
      },
      random: options.random ?? Math.random,
    });
  }
}

/**
 * A server as shown to the assistant and its model: without query and fragment, which may contain a key. The name of an
 * unnamed server is its URL.
 */
export function redactedServer({ name, url }: ToolSubject): ToolSubject {
  const { origin, pathname } = new URL(url);
  const redacted = origin + pathname;
  return { name: name === url ? redacted : name, url: redacted };
}

type OfflineCallsOptions = OfflineParts & {
  pages: ElicitedPages;
  explain: (error: unknown) => string;
};

const pong = madeMessage({ id: 0, result: {} });

/**
 * Sends requests that only the server can answer. They wait briefly for a server that is being tried. If they fail, the error
 * contains the time when the server became unreachable. Calls of `sign_in` and `connect_account` are answered here while listed.
 */
function offlineCalls(options: OfflineCallsOptions): Upstream['send'] {
  const { upstream, contact, waiting, assistantView, pages } = options;
  const { name, troubleOf, explain, signInService, clock } = options;

  function call(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    // Nearly every call takes this branch, so it costs a single promise.
    return !contact.trouble() && !hasOwnTool(assistantView)
      ? forward(request, deliver, signal)
      : callInTrouble(request, deliver, signal);
  }

  async function callInTrouble(request: Message, deliver: Deliver, signal: AbortSignal) {
    const trouble = contact.trouble();
    const offered = assistantView.sentTools === 'sign_in' || trouble?.kind === 'signed_out';
    if (signInService && offered && isCallOf(request, 'sign_in'))
      return signIn(request, signInService, deliver, signal);
    if (hasAccountTool(trouble) && isCallOf(request, 'connect_account'))
      return connectAccount(request, deliver, signal);
    if (contact.needsHandshake() || (trouble && trouble.kind !== 'offline')) {
      if (request.method === 'ping') return deliver(answerTo(idOf(request), pong));
      const refusal = await waiting.settle(signal).catch(accountError);
      if (signal.aborted) return;
      if (refusal) return refuseCall(request, refusal, deliver);
    }
    await forward(request, deliver, signal);
    contact.nudge();
  }

  function forward(request: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    return upstream.send(request, deliver, signal).catch((error: unknown) => {
      if (signal.aborted || troubleOf(error) !== 'signed_out') throw error;
      throw troubled(contact.note('signed_out', error));
    });
  }

  async function signIn(
    request: Message,
    service: PersonSignIn,
    deliver: Deliver,
    signal: AbortSignal,
  ) {
    const { offerSignIn } = await import('./offline-answers.ts');
    const path = ['params', 'capabilities', 'elicitation', 'url'];
    const { initialize } = assistantView;
    const shows = initialize !== undefined && textAt(initialize, ...path) !== undefined;
    const reached = async () => {
      if (contact.trouble() && (await service.signedIn())) await waiting.attempt(signal);
      return contact.trouble()?.kind !== 'signed_out' && !contact.needsHandshake();
    };
    const elicit = async (page: SignInPage, text: string) =>
      pages.show(page, text, deliver, signal);
    const answer = await offerSignIn(request, {
      name,
      signInService: service,
      elicit: shows && modernVersion(request) === undefined ? elicit : undefined,
      reached,
      asked,
      explain,
      clock,
      signal,
    });
    if (!signal.aborted) await deliver(answer);
  }

  const hasAccountTool = (trouble: Trouble | undefined) =>
    trouble?.kind === 'account' || assistantView.sentTools === 'connect_account';

  /** The message with which the server asks the person for an account or a key; `undefined` for any other trouble. */
  function asked(): string | undefined {
    const { kind, error } = contact.trouble() ?? {};
    return kind === 'account' && error instanceof Error ? error.message : undefined;
  }

  async function connectAccount(request: Message, deliver: Deliver, signal: AbortSignal) {
    if (contact.trouble()) await waiting.attempt(signal);
    if (signal.aborted) return;
    const { connectAnswer } = await import('./offline-answers.ts');
    const now = contact.trouble();
    const problem = now && explain(troubled(now));
    await deliver(connectAnswer(request, name, { asked: asked(), problem }));
  }

  return call;
}

/** Refuses a request that lacks the person's account or key: a tool call with a result for the model, others with an error. */
async function refuseCall(
  request: Message,
  refusal: UpstreamError,
  deliver: Deliver,
): Promise<void> {
  const isTask = textAt(request, 'params', 'task') !== undefined;
  if (request.method !== 'tools/call' || isTask) throw refusal;
  const { toolResult } = await import('./offline-answers.ts');
  await deliver(toolResult(request, refusal.message, true));
}

function accountError(error: unknown): UpstreamError {
  if (error instanceof UpstreamError && error.code === 'account') return error;
  throw error;
}

const hasOwnTool = ({ sentTools }: AssistantView) =>
  sentTools === 'sign_in' || sentTools === 'connect_account';

function isCallOf(request: Message, tool: OwnTool): boolean {
  return request.method === 'tools/call' && stringAt(request, 'params', 'name') === tool;
}
