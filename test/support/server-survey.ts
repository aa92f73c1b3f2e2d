import { Client as ModernClient } from '@modelcontextprotocol/client';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ProgressNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { vi } from 'vitest';
import { patient } from './patient.ts';

export type ToolCall = { name: string; arguments?: Record<string, unknown> };

/** The steps of a survey of a server. */
export type Itinerary = {
  /** Every tool at least once, in this order; a call may fail, which is a finding too. */
  tools: readonly ToolCall[];
  /** Resources besides the listed ones. */
  resources?: readonly string[];
  prompts?: readonly { name: string; arguments?: Record<string, string> }[];
  /** Arguments of prompts, to be completed. */
  completions?: readonly {
    prompt: string;
    argument: { name: string; value: string };
    others?: Record<string, string>;
  }[];
  /** A tool that makes the server send log messages, and that stops them at its next call. */
  logs?: string;
  /** A tool that runs as a task. */
  task?: ToolCall;
  /** A tool that makes the server report that a resource changed. */
  updates?: { uri: string; by: string };
};

export type Survey = Record<string, unknown>;

type Transport<C extends { connect: (...args: never[]) => unknown }> = Parameters<C['connect']>[0];

const identity = { name: 'surveyor', version: '1' };
const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
const roots = { roots: [{ uri: 'file:///srv/project', name: 'project' }] };
const thought = {
  model: 'm',
  role: 'assistant' as const,
  content: { type: 'text' as const, text: 'a thought' },
};
const filled = {
  action: 'accept' as const,
  content: { name: 'Ada', check: true, email: 'ada@example.com', integer: 7, number: 1.5 },
};

/** The findings of an assistant of the legacy era at a server; times and ids, which differ, are replaced. */
export async function legacySurvey(
  transport: Transport<LegacyClient>,
  itinerary: Itinerary,
): Promise<Survey> {
  const client = new LegacyClient(identity, { capabilities });
  const asked: unknown[] = [];
  const updated: unknown[] = [];
  const progress: unknown[] = [];
  let logged = 0;
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
    asked.push(params);
    return thought;
  });
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params);
    return filled;
  });
  client.setRequestHandler(ListRootsRequestSchema, () => roots);
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    updated.push(params);
  });
  client.setNotificationHandler(LoggingMessageNotificationSchema, () => {
    logged += 1;
  });
  // The SDK removes the handler of a call at its answer, and would miss progress that arrives in the same chunk.
  client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
    progress.push(params);
  });
  await client.connect(transport);
  const found = await survey(client, itinerary);
  const { task, updates, logs } = itinerary;
  const steps: unknown[] = [];
  if (task)
    for await (const step of client.experimental.tasks.callToolStream(task))
      steps.push(step.type === 'result' ? step.result : step.type);
  if (updates) {
    await client.subscribeResource({ uri: updates.uri });
    await client.callTool({ name: updates.by });
    await vi.waitFor(() => updated.length > 0 || Promise.reject(new Error('no update')), patient);
    await client.callTool({ name: updates.by });
    await client.unsubscribeResource({ uri: updates.uri });
  }
  if (logs !== undefined) {
    logged = 0;
    await client.callTool({ name: logs });
    await vi.waitFor(() => logged > 0 || Promise.reject(new Error('nothing logged')), patient);
    await client.callTool({ name: logs });
  }
  if (client.getServerCapabilities()?.logging) await client.setLoggingLevel('error');
  await client.ping();
  await client.close();
  // A task is polled, and updates come, a varying number of times; and the SDK, when it resumes a stream by itself, may
  // be asked one thing twice.
  const once = { asked: unique(asked), updated: unique(updated), task: unique(steps) };
  return level({ ...found, ...once, progress });
}

/** The findings with the second version of the SDK, of an assistant that prefers the modern era, or of one that knows only the legacy era. */
export async function modernSurvey(
  transport: Transport<ModernClient>,
  itinerary: Itinerary,
  mode: 'auto' | 'legacy' = 'auto',
): Promise<Survey> {
  const client = new ModernClient(identity, { capabilities, versionNegotiation: { mode } });
  const asked: unknown[] = [];
  client.setRequestHandler('sampling/createMessage', ({ params }) => {
    asked.push(params);
    return thought;
  });
  client.setRequestHandler('elicitation/create', ({ params }) => {
    asked.push(params);
    return filled;
  });
  client.setRequestHandler('roots/list', () => roots);
  await client.connect(transport);
  const found = await survey(client, itinerary);
  await client.close();
  return level({ ...found, asked });
}

async function survey(client: LegacyClient | ModernClient, itinerary: Itinerary): Promise<Survey> {
  const offered = client.getServerCapabilities() ?? {};
  const { tools } = await client.listTools();
  const called: unknown[] = [];
  for (const [index, call] of itinerary.tools.entries()) {
    const _meta = { progressToken: `call ${index}` };
    called.push(await outcome(client.callTool({ ...call, _meta })));
  }
  const { resources } = offered.resources ? await client.listResources() : { resources: [] };
  const templates = offered.resources ? await client.listResourceTemplates() : {};
  const read: unknown[] = [];
  for (const uri of [...resources.map((one) => one.uri), ...(itinerary.resources ?? [])])
    read.push(await outcome(client.readResource({ uri })));
  const prompts = offered.prompts ? await client.listPrompts() : {};
  const got: unknown[] = [];
  for (const prompt of itinerary.prompts ?? []) got.push(await outcome(client.getPrompt(prompt)));
  const completed: unknown[] = [];
  for (const { prompt, argument, others = {} } of itinerary.completions ?? []) {
    const ref = { type: 'ref/prompt' as const, name: prompt };
    completed.push(
      await outcome(client.complete({ ref, argument, context: { arguments: others } })),
    );
  }
  const instructions = client.getInstructions();
  const version = client.getServerVersion();
  const offer = { version, offered, instructions, tools, resources, templates, prompts };
  return { ...offer, called, read, got, completed };
}

function unique(found: readonly unknown[]): unknown[] {
  return [...new Map(found.map((one) => [JSON.stringify(one), one])).values()];
}

async function outcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => ({ failed: String(error) }));
}

/** Replaces times of the day and random ids, the only things in which two visits may differ. */
function level(found: Survey): Survey {
  const levelled = JSON.stringify(found, (name, value: unknown) =>
    name === 'blob' && typeof value === 'string'
      ? `base64 of ${Buffer.from(value, 'base64').toString('latin1')}`
      : value,
  )
    .replaceAll(/\d{1,2}:\d{2}:\d{2} [AP]M/g, 'TIME')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')
    // A gateway puts a seal in front of a task id, and a collection puts another one.
    .replaceAll(/(?<![\w-])(?:[\w-]{22}\.){0,2}[0-9a-f]{32}\b/g, 'TASK');
  const parsed: Survey = JSON.parse(levelled);
  return parsed;
}

/** Members of only one era: what the modern era adds to every list, and what it no longer has, such as tasks and ids of elicitations. */
const ofOneEra = new Set(['ttlMs', 'cacheScope', 'execution', 'elicitationId', 'offered']);

/** The parts of a survey that both eras can express. */
export function common(found: Survey): unknown {
  return JSON.parse(
    JSON.stringify(found, (name, value: unknown) => (ofOneEra.has(name) ? undefined : value)),
  );
}
