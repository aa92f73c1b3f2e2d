import { fastify } from 'fastify';
import { expect, test, vi } from 'vitest';

import { LatePages } from '#server/app/http-app';

test('pages are made at the first request, and once', async () => {
  const make = vi.fn(async () => fastify());
  const pages = new LatePages(make);

  expect(make).not.toHaveBeenCalled();

  const [first, second] = await Promise.all([pages.app(), pages.app()]);

  expect(first).toBe(second);
  expect(make).toHaveBeenCalledTimes(1);
});

test('pages that could not be made are made at the next request', async () => {
  const make = vi.fn(async () => fastify());
  make.mockRejectedValueOnce(new Error('a file is missing'));
  const pages = new LatePages(make);

  await expect(pages.app()).rejects.toThrow('a file is missing');

  expect(await pages.app()).toHaveProperty('routing');
});

test('pages that are still being made are closed with the server', async () => {
  const app = fastify();
  const closed = vi.fn();
  app.addHook('onClose', async () => closed());
  const pages = new LatePages(async () => app);
  void pages.app();

  await pages.close();

  expect(closed).toHaveBeenCalledTimes(1);
});

test('a server whose pages were never made, or could not be made, closes', async () => {
  const failing = new LatePages(async () => Promise.reject(new Error('a file is missing')));
  const asked = failing.app();

  await expect(asked).rejects.toThrow('a file is missing');

  await expect(failing.close()).resolves.toBeUndefined();
  await expect(new LatePages(async () => fastify()).close()).resolves.toBeUndefined();
});
