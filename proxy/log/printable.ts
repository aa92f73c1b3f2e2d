const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * One line of text that cannot act on a terminal, break a log into other lines or turn a line around: control
 * characters, line ends and invisible marks are shown as `\u001b`. JSON stays JSON, as that is how it spells them.
 * Whatever is printed or logged goes through here, since names and errors come from servers, files and strangers.
 */
export function printable(text: string): string {
  return text.replace(unsafe, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
