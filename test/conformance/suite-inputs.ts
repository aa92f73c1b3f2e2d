import {
  inputRequired,
  inputResponse,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

const words = (text: string) => ({ content: [{ type: 'text' as const, text }] });
const form = (message: string, shape: z.ZodRawShape) =>
  inputRequired.elicit({ message, requestedSchema: z.object(shape) });
const sample = (text: string, maxTokens: number) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text } }],
    maxTokens,
  });
const named = 'test_input_required_result_';
const name = { name: z.string() };

/** The tools and the prompt by which the suite tries results that need input. MCP 2026-07-28 */
export function suiteInputs(server: McpServer, codec: RequestStateCodec<number>): void {
  const answered = ({ inputResponses }: ServerContext['mcpReq'], ...keys: string[]) =>
    keys.every((key) => inputResponse(inputResponses, key).kind !== 'missing');
  const tool = (
    short: string,
    keys: string[],
    ask: () => Parameters<typeof inputRequired>[0]['inputRequests'],
    withState = false,
  ) =>
    server.registerTool(named + short, {}, async ({ mcpReq }) => {
      if (answered(mcpReq, ...keys)) {
        return words(`state-ok ${JSON.stringify(mcpReq.inputResponses)}`);
      }
      const inputRequests = ask() ?? {};
      return inputRequired({
        inputRequests,
        ...(withState && { requestState: await codec.mint(1) }),
      });
    });

  tool('elicitation', ['user_name'], () => ({ user_name: form('What is your name?', name) }));
  tool('sampling', ['capital_question'], () => ({
    capital_question: sample('What is the capital of France?', 100),
  }));
  tool('list_roots', ['client_roots'], () => ({ client_roots: inputRequired.listRoots() }));
  const confirm = () => ({ confirm: form('Please confirm', { ok: z.boolean() }) });
  tool('request_state', ['confirm'], confirm, true);
  tool('tampered_state', ['confirm'], confirm, true);
  const all = () => ({
    user_name: form('What is your name?', name),
    greeting: sample('Generate a greeting', 50),
    client_roots: inputRequired.listRoots(),
  });
  tool('multiple_inputs', Object.keys(all()), all, true);
  server.registerTool(`${named}multi_round`, {}, async ({ mcpReq }) => {
    const round = mcpReq.requestState<number>() ?? 0;
    if (round === 2 && answered(mcpReq, 'step2')) return words('done');
    const inputRequests =
      round === 1 && answered(mcpReq, 'step1')
        ? { step2: form('Step 2: What is your favorite color?', { color: z.string() }) }
        : { step1: form('Step 1: What is your name?', name) };
    const requestState = await codec.mint('step2' in inputRequests ? 2 : 1);
    return inputRequired({ inputRequests, requestState });
  });
  const either = (short: string, ask: (can: object) => Record<string, ReturnType<typeof sample>>) =>
    server.registerTool(short, {}, ({ mcpReq }) => {
      if (mcpReq.inputResponses) return words('done');
      const envelope: Record<string, unknown> = { ...mcpReq.envelope };
      const can = envelope['io.modelcontextprotocol/clientCapabilities'];
      return inputRequired({ inputRequests: ask(Object(can)) });
    });
  either(`${named}capabilities`, (can) => ({
    ...('sampling' in can && { capital_question: sample('What is the capital of France?', 100) }),
    ...('elicitation' in can && { user_name: form('What is your name?', name) }),
  }));
  either('test_missing_capability', () => ({ question: sample('why', 10) }));
  either('test_streaming_elicitation', () => ({ user_name: form('What is your name?', name) }));
  server.registerPrompt(`${named}prompt`, { description: 'asks first' }, ({ mcpReq }) => {
    if (answered(mcpReq, 'user_context')) {
      return { messages: [{ role: 'user', content: { type: 'text', text: 'with context' } }] };
    }
    const context = form('What context should the prompt use?', { context: z.string() });
    return inputRequired({ inputRequests: { user_context: context } });
  });
}
