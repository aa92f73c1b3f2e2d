import type { z } from 'zod';

import { operator } from '#administration/actor';
import { AdministrationRefusal } from '#administration/administration-refusal';
import type { Operation } from '#administration/operation';
import { perform } from '#administration/perform';
import { everyRefusal } from '#audit/every-refusal';
import type { Clock } from '#clock/clock';
import { CommandError, UsageError } from '#config/usage-error';
import type { Stores } from './command.ts';

interface Ports {
  readonly stores: Stores;
  readonly clock: Clock;
}

/**
 * Does an operation as the operator of this machine, written down like everybody's.
 *
 * @throws {UsageError} for a value that was typed wrongly
 * @throws {CommandError} for what cannot be done
 */
export async function administer<Input extends z.ZodObject, Output extends z.ZodObject>(
  operation: Operation<Input, Output>,
  input: Readonly<Record<string, unknown>>,
  { stores, clock }: Ports,
): Promise<z.output<Output>> {
  try {
    return await perform(operation, input, operator, {
      ...stores,
      clock,
      refusals: everyRefusal({ audit: stores.audit, clock }),
    });
  } catch (refusal) {
    if (!(refusal instanceof AdministrationRefusal)) throw refusal;
    if (refusal.code === 'invalid') throw new UsageError(refusal.message);
    throw new CommandError(refusal.message, undefined, { cause: refusal });
  }
}

type ListOutput<Item extends z.ZodType> = z.ZodObject<{
  items: z.ZodArray<Item>;
  total: z.ZodInt;
  page: z.ZodInt;
  limit: z.ZodInt;
}>;

/** All that a list has, its pages put together. */
export async function administerList<Input extends z.ZodObject, Item extends z.ZodType>(
  operation: Operation<Input, ListOutput<Item>>,
  input: Readonly<Record<string, unknown>>,
  ports: Ports,
): Promise<z.output<Item>[]> {
  const items: z.output<Item>[] = [];
  for (let page = 1; ; page += 1) {
    const part = await administer(operation, { ...input, page, limit: 200 }, ports);
    items.push(...part.items);
    if (part.items.length === 0 || items.length >= part.total) return items;
  }
}
