import type { EpochSeconds } from '#clock/clock';
import { printable } from '#log/printable';
import { redact } from '#log/redact';
import { factLines, type AgentEvent } from './agent-event.ts';

/** Tells whoever looks how the agent stands. */
export type AgentStatus = (fact: AgentEvent) => void;

/**
 * `json`: one object a line. `plain`: one line a fact that is new, for a journal. `live`: the facts that hold now, written over
 * one another on a terminal, below what went wrong.
 */
export type StatusForm = 'json' | 'plain' | 'live';

export function agentStatus(
  form: StatusForm,
  write: (text: string) => void,
  now: () => EpochSeconds,
): AgentStatus {
  const line = (text: string) => write(`${printable(redact(text))}\n`);
  if (form === 'plain') {
    let last = '';
    return (fact) => {
      // An attempt like the one before is no news.
      if (fact.event === 'connecting' && last !== '') return;
      const news = fact.event === 'waiting' ? fact.problem : fact.event;
      if (fact.event === 'waiting' && news === last) return;
      last = news;
      factLines(fact).forEach(line);
    };
  }
  if (form === 'json')
    return ({ event, ...fields }) => {
      const time = new Date(now() * 1_000).toISOString();
      line(JSON.stringify({ time, event, ...fields }));
    };
  const standing = new Map<string, string[]>();
  let painted = 0;
  return (fact) => {
    // Up over what was painted, and everything below it away.
    if (painted > 0) write(`\u001b[${painted}A\u001b[0J`);
    const lines = factLines(fact);
    const time = new Date(now() * 1_000).toISOString().slice(11, 19);
    if (isNews(fact)) for (const text of lines) line(`${time} ${text}`);
    else if (fact.event === 'bound') standing.set('bound', lines);
    else {
      standing.set('connection', lines);
      if (fact.event !== 'connected') standing.delete('bound');
    }
    const shown = [...(standing.get('connection') ?? []), ...(standing.get('bound') ?? [])];
    for (const text of shown) line(text);
    painted = shown.length;
  };
}

/** What happened, in contrast to what holds. */
function isNews({ event }: AgentEvent): boolean {
  return /^(?:failed|(?:not_)?reloaded|key_\w+)$/.test(event);
}
