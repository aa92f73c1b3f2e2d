import { z } from 'zod';
import type { ConnectionView } from '#proxy/connections/accounts-service';

/** A message of the stand-in for Electron to the test, which plays the desktop, over the channel of the process. */
export type FromApp =
  | { tell: 'window'; window: number; options: unknown }
  | { tell: 'load'; window: number; url: string }
  | { tell: 'focus' | 'close'; window: number }
  | { tell: 'send'; window: number; channel: string; payload: unknown }
  | { tell: 'tray'; icon: string; tooltip: string; menu: RecordedItem[] }
  | { tell: 'notification'; notification: number; title: string; body: string }
  | { tell: 'external'; url: string; environment: string[] }
  | { tell: 'permissions'; granted: boolean[] }
  /** The app is about to write; with `killed`, the victim is killed here. */
  | { tell: 'point'; what: string; killed: boolean }
  | { tell: 'answer'; call: number; value?: unknown; error?: string };

/** An action of the test as the desktop and the person at it. One with a `call` is answered. */
export type ToApp =
  | {
      act: 'invoke';
      call: number;
      window: number;
      url: string;
      mainFrame: boolean;
      channel: string;
      payload: unknown;
    }
  | { act: 'fetch'; call: number; url: string }
  | { act: 'mayNavigate' | 'mayOpen'; call: number; window: number; url: string }
  | { act: 'clipboard'; call: number }
  | { act: 'clickMenu'; item: number }
  | { act: 'clickNotification'; notification: number }
  | { act: 'ready' | 'closed'; window: number }
  | { act: 'scripted'; connections: ConnectionView[] }
  /** The scripted accounts service continues one call that it holds, or the next one that it would hold. */
  | { act: 'scriptedGoOn' }
  /** The scripted accounts service fails once with this message. */
  | { act: 'scriptedFailure'; words: string }
  /** `victim`, a process id or 0 for the app itself, is killed just before the app does such a write. */
  | { act: 'killAt'; write: FatalWrite; victim: number }
  | { act: 'killNobody' }
  | { act: 'secondInstance' | 'quit' };

/** The next write of that name, or the next one that `not` does not name; a write that `not` names twice is spared twice. */
export type FatalWrite = string | { not: readonly string[] };

/** An item of a native menu, as a person sees it. */
export type RecordedItem = {
  item: number;
  label: string;
  type: string;
  enabled: boolean;
  checked: boolean;
  items: RecordedItem[];
};

/** A page as it crosses the wire. */
export const wirePage = z.object({
  status: z.number(),
  headers: z.array(z.tuple([z.string(), z.string()])),
  body: z.string(),
});
export type WirePage = z.infer<typeof wirePage>;
