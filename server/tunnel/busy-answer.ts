import type { UpstreamAnswer } from '#gateway/upstream';

/** What a caller gets for whom there was no room, soon enough to try again. */
export const busyAnswer: UpstreamAnswer = {
  status: 503,
  mediaType: '',
  sessionId: undefined,
  retryAfterSeconds: 1,
  body: new Uint8Array(),
};
