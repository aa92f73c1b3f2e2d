const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Makes text safe for a terminal or a log line: control characters, line breaks and invisible or bidirectional marks
 * become `\u001b`. JSON stays JSON, which escapes them in the same way. Everything printed or logged passes through
 * here, because names and errors come from servers, files and strangers.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
