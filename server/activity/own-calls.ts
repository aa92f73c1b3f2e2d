import { codesTold, toldCode } from '#gateway/gateway-refusal';
import type { CallRecord } from '#model/calls';

// Calls for people who see only their own. A row records why a tool was refused, but callers must not learn that a tool exists which they
// may not use. So the caller sees the same reason in both cases, as in the answer of the call.

/** A call with the error code that its caller received. */
export function asToldToCaller(call: CallRecord): CallRecord {
  const { error } = call;
  const told = error === undefined ? undefined : toldCode(error);
  return told === error ? call : { ...call, error: told };
}

/** A filter by the error codes that callers receive, instead of the recorded codes, which would reveal the reason. */
export function asAskedByCaller<
  Filter extends { readonly error?: string | readonly string[] | undefined },
>(filter: Filter): Filter {
  const { error } = filter;
  if (error === undefined) return filter;
  return { ...filter, error: [error].flat().flatMap(codesTold) };
}
