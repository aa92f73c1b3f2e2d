import { agentKeyAccount, checkAgentKey } from '#agent/agent-key';
import { agentPlan } from './agent-plan.ts';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/** `latchkey agent login`: keeps the key, typed unseen or from standard input, in the keychain. */
export async function agentLogin(input: CommandInput, machine: Machine): Promise<void> {
  const { base } = agentPlan(input, machine);
  const keySecret = checkAgentKey(await machine.secret(`agent key for ${base}`), 'standard input');
  const store = await machine.store(machine.options(input.options));
  await store.set(agentKeyAccount(base), keySecret);
  machine.say(`the agent key for ${base} is kept`);
  machine.tell(`next: latchkey agent --server-url ${base}`);
  machine.tell('hint: an agent that runs already takes it over at SIGHUP, and loses no call');
}
