/** An HTTP answer in the making: status, headers, and the members of its JSON body. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: string; readonly error_description: string };
}

/** The answer of this status that says this. */
export function errorAnswer(
  status: number,
  code: string,
  description: string,
  headers: Record<string, string> = {},
): ErrorAnswer {
  return { status, headers, body: { error: code, error_description: description } };
}
