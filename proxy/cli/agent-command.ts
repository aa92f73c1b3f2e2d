import { UsageError } from '#config/usage-error';
import type { Command } from './command.ts';

/** `latchkey agent`. */
export const agentCommand: Command = {
  name: 'agent',
  operands: '[login|install|uninstall]',
  arity: [0, 1],
  summary: 'let the cloud reach MCP servers of this network',
  about: `Connects to a Latchkey server from inside a private network, without any open port, and serves the
MCP servers of its configuration file as far as the dashboard binds them to this agent:

  {"servers": {"files": {"command": "npx", "args": ["…"], "env": {"TOKEN": "…"}, "denyTools": ["write_*"]},
               "crm": {"url": "http://127.0.0.1:3000/mcp", "headers": {"authorization": {"env": "CRM_AUTH"}}}}}

The key is the one that the dashboard showed once: login keeps it in the keychain, else LATCHKEY_AGENT_KEY or
--key-file holds it. A new key in that file is taken over by itself, but by the machine's service under systemd only
at its restart (systemctl restart latchkey-agent); one in the keychain and the configuration are at SIGHUP. Ctrl-C and
SIGTERM let calls finish. install writes a service for systemd or launchd, for this machine or with --user for you.`,
  flags: {
    'server-url': { value: 'URL', doc: 'the server; LATCHKEY_SERVER_URL' },
    config: {
      value: 'FILE',
      doc: 'what it serves; agent.json in our configuration folder, or LATCHKEY_CONFIG',
    },
    'key-file': {
      value: 'FILE',
      doc: 'holds the key, for its owner alone (0600); LATCHKEY_AGENT_KEY_FILE',
    },
    json: { doc: 'what happens, one JSON object a line' },
    user: { doc: 'install, uninstall: a service of yours rather than the machine’s' },
    'dry-run': { doc: 'install: print the service, write nothing' },
  },
  options: ['secret-store', 'log-level', 'proxy', 'ca-file'],
  examples: [
    'latchkey agent login --server-url https://cloud.example.com',
    'latchkey agent --server-url https://cloud.example.com --config ./agent.json',
    'latchkey agent install --user --server-url https://cloud.example.com --dry-run',
  ],
  async run(input, machine) {
    const [what] = input.operands;
    switch (what) {
      case undefined: {
        const { agentPlan } = await import('./agent-plan.ts');
        await machine.agent(agentPlan(input, machine), machine.options(input.options), {
          json: input.flags.has('json'),
        });
        return 0;
      }
      case 'login': {
        const { agentLogin } = await import('./agent-login.ts');
        await agentLogin(input, machine);
        return 0;
      }
      case 'install':
      case 'uninstall': {
        const { agentService } = await import('./agent-service.ts');
        await agentService(what, input, machine);
        return 0;
      }
      default:
        throw new UsageError(
          'latchkey agent does not know that word',
          'it knows login, install and uninstall, and runs without one',
        );
    }
  },
};
