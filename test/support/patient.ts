/** For `vi.waitFor` and `expect.poll`: an event is waited for until it comes, however slow the machine is. */
export const patient = { timeout: 60_000, interval: 50 };
