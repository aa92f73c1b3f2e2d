/** For `vi.waitFor` and `expect.poll`: waits up to a minute for an event, because the machine may be slow. */
export const patient = { timeout: 60_000, interval: 50 };
