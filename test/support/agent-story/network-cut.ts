import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { StoryAssistant } from './story-assistant.ts';
import type { StoryWorld } from './story-world.ts';
import { patient } from '../patient.ts';

const dial = 'GET /api/agents/connect ';

/** The results of the calls of one network cut. */
export interface NetworkCut {
  /** The outcomes of the call that was open at the cut and of the calls made during the cut, about two seconds apart. */
  readonly outcomes: readonly string[];
  /** How many calls were made during the cut. */
  readonly asked: number;
  /** The time from the cut until the agent's page said that the agent is offline; `undefined` if the page never did. */
  readonly offlineAfterMs: number | undefined;
}

/** How far a cut has come. */
export interface CutProgress {
  readonly sinceMs: number;
  /** The agent's page says that it is offline. */
  readonly isSeen: boolean;
  /** The agent has noticed, too, and dials again. */
  readonly isDialling: boolean;
}

/**
 * Cuts the network between agent and server while a long call is open, without closing a connection. Once `isOver` returns true,
 * it joins the network again and waits until the agent is online.
 */
export async function networkCut(
  world: StoryWorld,
  assistant: StoryAssistant,
  isOver: (progress: CutProgress) => boolean,
): Promise<NetworkCut> {
  const longCalls = () => world.sent().filter(({ text }) => text.includes('long-running')).length;
  const before = longCalls();
  const open = outcome(
    assistant.client.callTool({
      name: 'trigger-long-running-operation',
      arguments: { duration: 60, steps: 1 },
    }),
  );
  await expect.poll(longCalls, patient).toBe(before + 1);
  await expect.poll(() => world.standing(), patient).toBe('Connected');

  const dials = world.network.count(dial);
  const cutAtMs = performance.now();
  const sinceCut = () => performance.now() - cutAtMs;
  world.network.cut(dial);
  const meanwhile: Promise<string>[] = [];
  let offlineAfterMs: number | undefined;
  const progress = (): CutProgress => ({
    sinceMs: sinceCut(),
    isSeen: offlineAfterMs !== undefined,
    isDialling: world.network.count(dial) > dials,
  });
  while (!isOver(progress())) {
    if (meanwhile.length < sinceCut() / 2000) meanwhile.push(outcome(assistant.echo('lost')));
    if (offlineAfterMs === undefined && (await world.standing()) === 'Offline')
      offlineAfterMs = sinceCut();
    await delay(50);
  }
  const outcomes = await Promise.all([open, ...meanwhile]);
  world.network.join();
  await expect.poll(() => world.standing(), patient).toBe('Connected');
  return { outcomes, asked: meanwhile.length, offlineAfterMs };
}

function outcome(call: Promise<unknown>): Promise<string> {
  return call.then(() => 'answered', String);
}
