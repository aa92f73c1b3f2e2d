import { expect, test, vi } from 'vitest';
import { RepeatedWork } from '#server/model/repeated-work';

class Counted extends RepeatedWork {
  begun = 0;
  end: (error?: Error) => void = () => {};

  protected override work(): Promise<void> {
    this.begun += 1;
    return new Promise((resolve, reject) => {
      this.end = (error) => (error ? reject(error) : resolve());
    });
  }

  get mustEnd() {
    return this.isClosed;
  }
}

test('repeated work: a run in progress is joined, not begun again', async () => {
  const work = new Counted(60_000, () => {});
  const first = work.run();
  const second = work.run();
  work.end();
  await Promise.all([first, second]);

  expect(work.begun).toBe(1);
  void work.run();
  expect(work.begun).toBe(2);
  work.end();
  await work.close();
});

test('repeated work: an error is reported, and the next run begins', async () => {
  const failed = vi.fn();
  const work = new Counted(60_000, failed);
  const first = work.run();
  const error = new Error('broken');
  work.end(error);
  await first;
  const second = work.run();
  work.end();
  await second;

  expect(failed.mock.calls).toEqual([[error]]);
  expect(work.begun).toBe(2);
  await work.close();
});

test('repeated work: the timer runs it until it is closed, which waits for the run in progress', async () => {
  vi.useFakeTimers();
  try {
    const work = new Counted(1000, () => {});
    vi.advanceTimersByTime(1000);
    expect(work.begun).toBe(1);
    let isOver = false;
    const closing = work.close().then(() => {
      isOver = true;
    });
    await Promise.resolve();

    expect(work.mustEnd).toBe(true);
    expect(isOver).toBe(false);
    work.end();
    await closing;
    vi.advanceTimersByTime(5000);
    expect(work.begun).toBe(1);
  } finally {
    vi.useRealTimers();
  }
});
