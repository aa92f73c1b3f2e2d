import type { Bridge, InputOf, OperationName, OutputOf, Overview } from '#contract';

declare global {
  interface Window {
    latchkey: Bridge;
  }
}

/** Asks the program behind the page. Rejects only where one of the two is broken. */
export async function ask<Name extends OperationName>(
  operation: Name,
  input: InputOf<Name>,
): Promise<OutputOf<Name>> {
  return window.latchkey.ask(operation, input);
}

/** Hears of every change, and of how things are now. */
export function onOverview(listener: (overview: Overview) => void): void {
  window.latchkey.onChange(listener);
  void ask('overview', {}).then(listener);
}
