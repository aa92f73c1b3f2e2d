import { question, shapes, type OperationName, type OutputOf } from '#contract';
import type { Answers } from '#answers';

/**
 * Reads a question, and the answer to it, by the contract.
 *
 * @throws {ZodError} when a page asks for anything else
 */
export async function answered(asked: unknown, all: Answers): Promise<unknown> {
  const { operation, input } = question.parse(asked);
  return one(operation, input, all);
}

async function one<Name extends OperationName>(
  operation: Name,
  input: unknown,
  all: Answers,
): Promise<OutputOf<Name>> {
  const { input: shape, output } = shapes[operation];
  return output.parse(await all[operation](shape.parse(input)));
}
