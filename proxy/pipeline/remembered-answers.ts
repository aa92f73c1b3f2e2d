import { answerTo } from '#jsonrpc/answer';
import { MessageError, readMessage, type Message } from '#jsonrpc/message';
import type { KeptAnswers } from './kept-answers.ts';

/** Kept answers as messages; what is written is read in that order, without anybody waiting for the disk. */
export interface RememberedAnswers {
  /** Keeps a result; errors are not worth it. */
  keep(question: string, answer: Message): void;

  /** The result last kept; `undefined` when there is none that can be read. */
  last(question: string): Promise<Message | undefined>;

  /** Resolves when everything is on disk. */
  saved(): Promise<unknown>;
}

export function rememberedAnswers(answers: KeptAnswers): RememberedAnswers {
  let saving: Promise<unknown> = Promise.resolve();
  return {
    keep(question, answer) {
      if (!answer.members.has('result')) return;
      // Behind the answer itself, which somebody waits for.
      saving = saving.then(async () => {
        await new Promise(setImmediate);
        // The same result under another id is the same file.
        await answers.keep(question, answerTo('0', answer).bytes);
      });
    },
    async last(question) {
      await saving;
      const bytes = await answers.read(question);
      try {
        const message = bytes && readMessage(bytes);
        return message?.members.has('result') ? message : undefined;
      } catch (error) {
        if (error instanceof MessageError) return undefined;
        throw error;
      }
    },
    saved: async () => saving,
  };
}
