/** A shell command that a text contains in encoded form. */
export interface EncodedCommand {
  readonly encoding: 'base64' | 'hexadecimal' | 'percent encoding' | 'character references';
  readonly command: string;
}

/** Matches a shell command that fetches, sends, deletes or starts something, with an argument. */
const command =
  /(?:^|[\s;&|`$("'])(?:curl|wget|bash|zsh|sh|dash|powershell|pwsh|cmd(?:\.exe)?|ncat|nc|netcat|python\d?|perl|ruby|osascript|rm|chmod|scp|rsync|ssh|eval|exec|source|certutil|mshta|Invoke-\w+|iex|cat|tar|base64|openssl|crontab|sudo)\s+[-/~$.'"\w<(]|\/dev\/tcp\/|\|\s*(?:ba|z|da)?sh\b/i;

const mostRuns = 20;
const longestRun = 8192;
const mostLevels = 2;

/** Commands in base64, hexadecimal digits, percent encoding or character references. */
export function encodedCommands(text: string, level = 1): EncodedCommand[] {
  const found = new Map<string, EncodedCommand>();
  for (const { encoding, decoded } of decodedRuns(text)) {
    const inner = level < mostLevels ? encodedCommands(decoded, level + 1) : [];
    const isCommand = isReadable(decoded) && command.test(decoded);
    const commands = isCommand ? [{ encoding, command: decoded.trim() }] : inner;
    for (const one of commands) found.set(one.command, one);
  }
  return [...found.values()];
}

function decodedRuns(
  text: string,
): { readonly encoding: EncodedCommand['encoding']; readonly decoded: string }[] {
  const runs = (pattern: RegExp) =>
    [...text.matchAll(pattern)].slice(0, mostRuns).map(([run]) => run.slice(0, longestRun));
  const bytes = (run: string, encoding: 'hex' | 'base64') => textOf(Buffer.from(run, encoding));
  return [
    ...runs(/(?<![\w+/-])[\w+/-]{16,}={0,2}/g).map((run) => ({
      encoding: 'base64' as const,
      decoded: bytes(run, 'base64'),
    })),
    ...runs(/(?<![\dA-Za-z])(?:0x)?(?:[\dA-Fa-f]{2}){8,}(?![\dA-Za-z])/g).map((run) => ({
      encoding: 'hexadecimal' as const,
      decoded: bytes(run.replace(/^0x/, ''), 'hex'),
    })),
    ...runs(/(?:\\x[\dA-Fa-f]{2}\s?){8,}/g).map((run) => ({
      encoding: 'hexadecimal' as const,
      decoded: bytes(run.replaceAll(/\\x|\s/g, ''), 'hex'),
    })),
    // Repetitions are limited, because the search of a long text could otherwise take minutes.
    ...runs(/[\w.-]{0,20}(?:%[\dA-Fa-f]{2}[\w.~+/:=&?'-]{0,80}){3,}/g).map((run) => ({
      encoding: 'percent encoding' as const,
      decoded: bytes(
        run.replaceAll(/%([\dA-Fa-f]{2})|[^%]/g, (one, hex: string | undefined) =>
          hex === undefined ? Buffer.from(one).toString('hex') : hex,
        ),
        'hex',
      ),
    })),
    ...runs(/(?:&#x?[\dA-Fa-f]{2,4};\s?){6,}/g).map((run) => ({
      encoding: 'character references' as const,
      decoded: run.replaceAll(/&#(x?)([\dA-Fa-f]+);/g, (_, x: string, digits: string) =>
        String.fromCharCode(Number.parseInt(digits, x === '' ? 10 : 16) % 0x10000),
      ),
    })),
  ];
}

/** Decodes bytes as UTF-8, or as UTF-16, which PowerShell expects in encoded commands. */
function textOf(bytes: Buffer): string {
  const isWide = bytes.length >= 4 && bytes.every((byte, at) => at % 2 === 0 || byte === 0);
  return bytes.toString(isWide ? 'utf16le' : 'utf8');
}

/** Whether nearly all of a text is printable ASCII: random bytes contain commands by accident. */
function isReadable(text: string): boolean {
  const odd = text.replaceAll(/[\x20-\x7E\t\n\r]/g, '').length;
  return text.length >= 6 && odd * 20 <= text.length;
}
