import { codesTold, toldCode } from '#gateway/gateway-refusal';
import type { CallRecord } from '#model/calls';

// Calls for people who see only their own. A row says why a tool was refused; its caller must not learn which tools exist that they may
// not use, so to them the reasons are the same, as they are in the answer of the call.

/** A call as its caller was answered. */
export function asToldToCaller(call: CallRecord): CallRecord {
  const { error } = call;
  const told = error === undefined ? undefined : toldCode(error);
  return told === error ? call : { ...call, error: told };
}

/** A filter by an error code, as callers know the codes: by none of those that would tell them apart. */
export function asAskedByCaller<
  Filter extends { readonly error?: string | readonly string[] | undefined },
>(filter: Filter): Filter {
  const { error } = filter;
  if (error === undefined) return filter;
  return { ...filter, error: [error].flat().flatMap(codesTold) };
}
