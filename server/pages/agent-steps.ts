import { typedInstallation, typedStart, type ProxyReference } from '#download/proxy-reference';

/** One thing to do where an agent is to run. */
export interface AgentStep {
  readonly heading: string;
  /** What it is about, in sentences. */
  readonly help: string;
  /** What to write or type there, ready to paste. */
  readonly text: string;
}

const exampleUrl = 'http://127.0.0.1:3000/mcp';

/** How an agent comes to run: its file, its key, itself, its service. `servers` are bound to it already. */
export function agentSteps(
  base: string,
  proxy: ProxyReference,
  servers: readonly string[] = [],
): readonly AgentStep[] {
  const at = `--server-url ${base}`;
  const names = servers.length > 0 ? servers : ['crm'];
  const served = Object.fromEntries(names.map((name) => [name, { url: exampleUrl }]));
  return [
    {
      heading: 'Say what it serves',
      help: 'In agent.json, on a machine of your network that has Node 22.19 or newer: each MCP server under the name that it has here, with its URL there, or with command and args.',
      text: JSON.stringify({ servers: served }, null, 2),
    },
    {
      heading: 'Give it the key',
      help: 'It asks for the key and keeps it in the keychain of that user. On a machine without one, keep the key in a file that only its owner can read, and add --key-file FILE to what follows instead.',
      text: `${typedStart(proxy)} agent login ${at}`,
    },
    {
      heading: 'Start it',
      help: 'It says what it serves, and its page here says Online.',
      text: `${typedStart(proxy)} agent ${at} --config agent.json`,
    },
    {
      heading: 'Keep it running',
      help: 'As a service of yours by systemd or launchd. One of the machine, without --user, takes its key from --key-file.',
      text: `${typedInstallation(proxy)}\nlatchkey agent install --user ${at} --config agent.json`,
    },
  ];
}

/** `@agent-steps`: `steps`, each an `AgentStep`. */
export const agentStepPieces: Readonly<Record<string, string>> = {
  '@agent-steps': `<ol class="steps">
<% for (const { heading, help, text } of it.steps) { %>
<li><h3><%= heading %></h3><p class="help"><%= help %></p><%~ include('@code', { text, of: 'what to type: ' + heading, label: heading }) %></li>
<% } %>
</ol>`,
};
