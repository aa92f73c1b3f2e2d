import type { Clock } from '#clock/clock';
import { answerTo, modernVersion, stringAt, textAt, type Message } from 'latchkey-mcp/raw-message';
import { madeMessage } from './messages.ts';
import type { SignInService, SignInPage } from './sign-in-page.ts';

export type ToolSubject = { name: string; url: string };

/** The tool that stands in for a server's own while sign-in is required. */
export const signInTool = {
  name: 'sign_in',
  described: ({ name, url }: ToolSubject) => ({
    name: signInTool.name,
    title: `Sign in to ${name}`,
    description: `Nobody is signed in to ${name} (${url}) on this machine, so its tools cannot be used yet. Call this to let the person sign in with the browser, and repeat what you were about to do afterwards.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  }),
};

/** What the person answered to the page that the assistant showed. */
export type Elicited = 'accept' | 'decline' | 'cancel';

type OfferSignInPorts = {
  name: string;
  signInService: SignInService;
  /** Shows the page with the help of an assistant of the session era; none when it cannot. */
  elicit: ((page: SignInPage, text: string) => Promise<Elicited>) | undefined;
  /** Whether the server can be used now; asks it. */
  reached: () => Promise<boolean>;
  /** A failure in words, with its remedy. */
  explain: (error: unknown) => string;
  clock: Clock;
  signal: AbortSignal;
};

/** Assistants give up after a minute. */
const signInTimeoutMs = 45_000;

/**
 * The answer to a call of `sign_in`. The page is shown by the assistant where it can (URL elicitation,
 * MCP 2025-11-25 and 2026-07-28), else by the browser where `--sign-in` allows that, else its address
 * is told. A page that waits already is never shown twice.
 */
export async function offerSignIn(request: Message, ports: OfferSignInPorts): Promise<Message> {
  const { name, signInService, elicit, reached, explain, clock, signal } = ports;
  const modern = modernVersion(request) !== undefined;
  const said = (text: string, isError = false) => result(request, modern, text, isError);
  const ready = `You are signed in to ${name}. Its tools are there now; go on with what you were about to do.`;
  const failed = `Nobody signed in to ${name}. Call sign_in again, or run in a terminal: ${signInService.command}`;

  if (await reached()) return said(ready);
  const asks = `Sign in to ${name} with the browser`;
  const handed = elicit !== undefined || (modern && takesPages(request));
  let page: SignInPage | undefined;
  try {
    page = await signInService.begin(handed);
  } catch (error) {
    return said(explain(error), true);
  }
  if (!page) {
    if (await reached()) return said(ready);
    return said(
      `Another window is about to sign in to ${name}. Finish it there; the tools appear by themselves.`,
    );
  }
  if (handed && !page.opened) {
    const action = elicit ? await elicit(page, asks) : response(request);
    if (action === undefined) return inputRequired(request, page, asks);
    if (action !== 'accept') {
      page.giveUp();
      return said(failed, true);
    }
    page.opened = true;
  }
  const link = `The page to sign in at: ${page.link().href}\nInstead of it, this can be run in a terminal: ${signInService.command}\nThe tools of ${name} appear by themselves once somebody has signed in.`;
  if (!page.opened && !handed)
    return said(`To sign in to ${name}, open the page in a browser on this machine. ${link}`);
  const enough = new AbortController();
  const outcome = await Promise.race([
    page.done,
    clock.sleep(signInTimeoutMs, AbortSignal.any([enough.signal, signal])).then(() => undefined),
  ]);
  enough.abort();
  if (outcome === undefined) return said(`The browser shows a page to sign in at ${name}. ${link}`);
  if (!outcome) return said(failed, true);
  if (await reached()) return said(ready);
  return said(`You are signed in to ${name}, but it cannot be reached. It is tried by itself.`);
}

/** Whether an assistant of the stateless era shows pages. */
function takesPages(request: Message): boolean {
  const key = 'io.modelcontextprotocol/clientCapabilities';
  return textAt(request, 'params', '_meta', key, 'elicitation', 'url') !== undefined;
}

function response(request: Message): Elicited | undefined {
  const action = stringAt(request, 'params', 'inputResponses', 'sign_in', 'action');
  if (action === undefined) return undefined;
  return action === 'accept' || action === 'decline' ? action : 'cancel';
}

function inputRequired(request: Message, page: SignInPage, text: string): Message {
  const params = { mode: 'url', message: text, url: page.link().href };
  const inputRequests = { sign_in: { method: 'elicitation/create', params } };
  return answered(request, { resultType: 'input_required', inputRequests });
}

function result(request: Message, modern: boolean, text: string, isError: boolean): Message {
  return answered(request, {
    ...(modern && { resultType: 'complete' }),
    content: [{ type: 'text', text }],
    ...(isError && { isError }),
  });
}

function answered({ id = 'null' }: Message, value: object): Message {
  return answerTo(id, madeMessage({ id: 0, result: value }));
}
