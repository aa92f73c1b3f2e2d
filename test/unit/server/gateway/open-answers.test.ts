import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { allScopes, type Scope } from '#server/model/scopes';
import type { Admission } from '#server/gateway/admission';
import { OpenAnswers } from '#server/gateway/open-answers';
import { rightsTo, someAdmission, someServer } from '#support/some-admission';

let open: OpenAnswers;

beforeEach(() => {
  vi.useFakeTimers();
  open = new OpenAnswers();
});

afterEach(() => {
  open.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The admission of a credential, and `standing`, with which a test changes the state of the credential. */
function credential(id: string, reference = id) {
  const standing = vi.fn((): Promise<readonly Scope[] | undefined> => Promise.resolve(allScopes));
  const admission = someAdmission({
    credential: { type: 'key', id },
    reference,
    now: async () => {
      const scopes = await standing();
      return scopes && { scopes, rights: rightsTo() };
    },
  });
  return { admission, standing };
}

test('an answer ends within a second of the revocation of its credential, and others continue', async () => {
  const revoked = credential('key_a');
  const other = credential('key_b');
  const [ending, going] = [new AbortController(), new AbortController()];
  open.add(revoked.admission, ending);
  open.add(other.admission, going);
  await vi.advanceTimersByTimeAsync(10_000);

  expect(ending.signal.aborted).toBe(false);

  revoked.standing.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);

  expect(ending.signal.aborted).toBe(true);
  expect(going.signal.aborted).toBe(false);
});

test('a stream ends within a second when its credential loses a scope, and an answer does not', async () => {
  const { admission, standing } = credential('client_a');
  const [listening, answering, narrow] = [1, 2, 3].map(() => new AbortController());
  open.add(admission, listening!).endless();
  open.add(admission, answering!);
  open.add({ ...admission, scopes: ['mcp:tools:read'] }, narrow!).endless();
  const aborted = () => [listening, answering, narrow].map((each) => each?.signal.aborted);
  await vi.advanceTimersByTimeAsync(10_000);

  expect(aborted()).toEqual([false, false, false]);

  standing.mockResolvedValue(['mcp:tools:read']);
  await vi.advanceTimersByTimeAsync(1000);

  expect(aborted()).toEqual([true, false, false]);
});

test('revoking one of two tokens of a client leaves the answer of the other open', async () => {
  const one = credential('client_a', 'jti-1');
  const two = credential('client_a', 'jti-2');
  const [ending, going] = [new AbortController(), new AbortController()];
  open.add(one.admission, ending);
  open.add(two.admission, going);
  one.standing.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);

  expect([ending.signal.aborted, going.signal.aborted]).toEqual([true, false]);
});

test('many answers of one credential need one query', async () => {
  const { admission, standing } = credential('key_a');
  for (let count = 0; count < 100; count += 1) open.add(admission, new AbortController());
  await vi.advanceTimersByTimeAsync(500);

  expect(standing).toHaveBeenCalledTimes(1);
});

test('a credential whose query is slow does not delay the end of others', async () => {
  const slow = credential('key_a');
  const [same, other] = [credential('key_a', 'jti-2'), credential('key_b')];
  const [endingSame, endingOther] = [new AbortController(), new AbortController()];
  slow.standing.mockReturnValue(new Promise(() => {}));
  same.standing.mockResolvedValue(undefined);
  other.standing.mockResolvedValue(undefined);
  open.add(slow.admission, new AbortController());
  open.add(same.admission, endingSame);
  open.add(other.admission, endingOther);
  await vi.advanceTimersByTimeAsync(1000);

  expect([endingSame.signal.aborted, endingOther.signal.aborted]).toEqual([true, true]);
});

test('a credential whose query is slow is not queried again in the meantime', async () => {
  const { admission, standing } = credential('key_a');
  const { promise, resolve } = Promise.withResolvers<readonly Scope[] | undefined>();
  standing.mockReturnValue(promise);
  const controller = new AbortController();
  open.add(admission, controller);
  await vi.advanceTimersByTimeAsync(10_000);

  expect(standing).toHaveBeenCalledTimes(1);

  resolve(allScopes);
  await vi.advanceTimersByTimeAsync(500);

  expect(standing).toHaveBeenCalledTimes(2);
});

test('a person who left one organization is looked up for each of their servers', async () => {
  const at = (id: string) => someServer({ id });
  const [left, stays] = [credential('user_a'), credential('user_a')];
  const [ending, going] = [new AbortController(), new AbortController()];
  open.add({ ...stays.admission, endpoint: at('srv_stays') }, going);
  open.add({ ...left.admission, endpoint: at('srv_left') }, ending);
  left.standing.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);

  expect([ending.signal.aborted, going.signal.aborted]).toEqual([true, false]);
});

test('a store that fails for two seconds ends no answer, and is queried again', async () => {
  const { admission, standing } = credential('key_a');
  const controller = new AbortController();
  open.add(admission, controller);
  standing.mockRejectedValue(new Error('disk full'));
  await vi.advanceTimersByTimeAsync(2500);

  expect(controller.signal.aborted).toBe(false);

  standing.mockResolvedValue(allScopes);
  await vi.advanceTimersByTimeAsync(500);
  standing.mockRejectedValue(new Error('disk full'));
  await vi.advanceTimersByTimeAsync(2500);

  expect(controller.signal.aborted).toBe(false);

  standing.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);

  expect(controller.signal.aborted).toBe(true);
});

test.each<[string, () => Promise<never>]>([
  ['fails', () => Promise.reject(new Error('the connection ended'))],
  ['gets no answer', () => new Promise(() => {})],
])(
  '112: cut-off node: an answer whose check %s ends four seconds after the last one',
  async (_, check) => {
    const cut = credential('key_a');
    const other = credential('key_b');
    const [listening, answering, going] = [1, 2, 3].map(() => new AbortController());
    open.add(cut.admission, listening!).endless();
    open.add(cut.admission, answering!);
    open.add(other.admission, going!);
    await vi.advanceTimersByTimeAsync(10_000);
    cut.standing.mockImplementation(check);

    await vi.advanceTimersByTimeAsync(4000);

    const aborted = [listening, answering, going].map((each) => each?.signal.aborted);
    expect(aborted).toEqual([true, true, false]);
  },
);

test('a process that was suspended checks its answers before it ends any', async () => {
  const [active, cut] = [credential('key_a'), credential('key_b')];
  const [going, ending] = [new AbortController(), new AbortController()];
  open.add(active.admission, going);
  open.add(cut.admission, ending);
  await vi.advanceTimersByTimeAsync(1000);
  cut.standing.mockRejectedValue(new Error('the connection ended'));

  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000);
  await vi.advanceTimersByTimeAsync(1000);

  expect([going.signal.aborted, ending.signal.aborted]).toEqual([false, true]);
});

test('an answer that has ended is not counted, checked or ended again', async () => {
  const { admission, standing } = credential('key_a');
  const controller = new AbortController();
  const answer = open.add(admission, controller);

  expect(open.count(credential('key_a').admission)).toBe(1);

  answer.over();
  await vi.advanceTimersByTimeAsync(2000);
  open.endAll();

  expect(open.count(credential('key_a').admission)).toBe(0);
  expect(standing).not.toHaveBeenCalled();
  expect(controller.signal.aborted).toBe(false);
});

test('answers are counted by credential', () => {
  const { admission } = credential('key_a');
  const answer = open.add(admission, new AbortController());
  open.add(admission, new AbortController());
  open.add(credential('key_b').admission, new AbortController());
  answer.over();
  answer.over();

  const counts = ['key_a', 'key_b', 'key_c'].map((id) => open.count(credential(id).admission));

  expect(counts).toEqual([1, 1, 0]);
});

test('a call through a collection counts once among the calls of its caller', async () => {
  const { admission, standing } = credential('key_a');
  const { proved } = admission;
  if (proved.type === 'member') throw new TypeError('a caller comes from outside');
  const atMember: Admission = {
    ...admission,
    proved: { type: 'member', collection: 'desk', proved },
  };
  const [whole, part] = [new AbortController(), new AbortController()];
  open.add(admission, whole);
  open.add(atMember, part);

  expect([open.count(admission), open.count(atMember), open.size]).toEqual([1, 1, 2]);

  standing.mockResolvedValue(undefined);
  await vi.advanceTimersByTimeAsync(1000);

  expect([whole.signal.aborted, part.signal.aborted]).toEqual([true, true]);
});

test('a draining server ends streams and lets the other answers finish', () => {
  const [listening, answering] = [new AbortController(), new AbortController()];
  open.add(credential('key_a').admission, listening).endless();
  open.add(credential('key_a').admission, answering);
  open.endEndless();

  expect([listening.signal.aborted, answering.signal.aborted]).toEqual([true, false]);
});

test('a caller may hold 512 streams, and the next is refused until one ends', () => {
  const listen = (id: string) => {
    const answer = open.add(credential(id).admission, new AbortController());
    answer.endless();
    return answer;
  };
  const [first] = Array.from({ length: 512 }, () => listen('key_a'));

  expect(() => listen('key_a')).toThrow(expect.objectContaining({ code: 'too_many_requests' }));
  listen('key_b');
  open.add(credential('key_a').admission, new AbortController());
  first?.over();
  listen('key_a');
});

test('closing ends all answers and checks none afterwards', async () => {
  const { admission, standing } = credential('key_a');
  const controller = new AbortController();
  open.add(admission, controller);
  open.close();
  await vi.advanceTimersByTimeAsync(5000);

  expect(controller.signal.aborted).toBe(true);
  expect(standing).not.toHaveBeenCalled();
});
