/** What the clients of both eras can do. */
export interface Assistant {
  listTools(): Promise<{ tools: { name: string; inputSchema: unknown }[] }>;
  callTool(call: ToolCall): Promise<unknown>;
  listResources(): Promise<{ resources: { uri: string }[] }>;
  readResource(resource: { uri: string }): Promise<unknown>;
  listPrompts(): Promise<{ prompts: { name: string }[] }>;
  getPrompt(prompt: { name: string }): Promise<unknown>;
}

export type ToolCall = { name: string; arguments?: Record<string, unknown> };

type Calls = (assistant: Assistant, toolCalls: readonly ToolCall[]) => Promise<void>;

async function everyTool(assistant: Assistant): Promise<void> {
  const { tools } = await assistant.listTools();
  for (const { name } of tools) await assistant.callTool({ name, arguments: { region: 'eu' } });
}

/** The calls that each scenario expects; all other scenarios expect a call of one tool. */
const calls: Record<string, Calls> = {
  initialize: async (assistant) => void (await assistant.listTools()),
  'request-metadata': async (assistant) => void (await assistant.listTools()),
  'json-schema-ref-no-deref': async (assistant) => void (await assistant.listTools()),
  async tools_call(assistant) {
    await assistant.listTools();
    await assistant.callTool({ name: 'add_numbers', arguments: { a: 5, b: 3 } });
  },
  'elicitation-sep1034-client-defaults': everyTool,
  'sse-retry': everyTool,
  async 'sep-2322-client-request-state'(assistant) {
    const { tools } = await assistant.listTools();
    for (const { name } of tools)
      await assistant.callTool({ name, arguments: {} }).catch((error: unknown) => {
        // The SDK of 2026-07-28 rejects an answer without a `resultType`, although the revision allows it.
        if (name !== 'test_mrtr_no_result_type') throw error;
      });
  },
  'http-invalid-tool-headers': everyTool,
  async 'http-custom-headers'(assistant, toolCalls) {
    await assistant.listTools();
    for (const call of toolCalls) await assistant.callTool(call);
  },
  async 'http-standard-headers'(assistant) {
    await everyTool(assistant);
    const { resources } = await assistant.listResources();
    for (const { uri } of resources) await assistant.readResource({ uri });
    const { prompts } = await assistant.listPrompts();
    for (const { name } of prompts) await assistant.getPrompt({ name });
  },
  async 'json-schema-2020-12-preservation'(assistant) {
    const { tools } = await assistant.listTools();
    const schema = tools.find(({ name }) => name !== 'json_schema_echo')?.inputSchema;
    await assistant.callTool({ name: 'json_schema_echo', arguments: { schema } });
  },
};

async function oneTool(assistant: Assistant): Promise<void> {
  await assistant.listTools();
  await assistant.callTool({ name: 'test-tool', arguments: {} });
}

/** Makes the calls that `scenario` waits for; `toolCalls` are those that the suite names itself. */
export async function scenarioCalls(
  scenario: string,
  assistant: Assistant,
  toolCalls: readonly ToolCall[],
): Promise<void> {
  await (calls[scenario] ?? oneTool)(assistant, toolCalls);
}
