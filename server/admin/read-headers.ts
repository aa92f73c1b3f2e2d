import type { z } from 'zod';
import type { Option } from '#model/option';
import { readNamedFile } from '#config/named-file';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { headerFields } from '#model/fixed-headers';
import type { GivenHeader } from './upstream-headers.ts';

export const httpHeaderFile: Option = {
  name: 'http-header-file',
  value: 'NAME=FILE',
  repeated: true,
  doc: 'a header for every request to the HTTP server, and the file that holds its value',
};

const isAFile = 'NAME=FILE names a file that holds the value, not the value itself';

/**
 * Reads the fixed headers that were given. The value is the content of the file without the newline at its end. People may
 * type a secret value in place of a name or file, so errors repeat nothing that was typed until it is known to be a name.
 *
 * @throws {UsageError} for a text other than NAME=FILE
 * @throws {CommandError} for a file that cannot be read or does not contain a valid header value
 */
export function readHeaders(input: Input): GivenHeader[] {
  return input.list(httpHeaderFile.name).map((typed) => {
    const [, name = '', file = ''] = /^([^=]*)=(.+)$/s.exec(typed) ?? [];
    if (file === '') {
      throw new UsageError(
        '--http-header-file takes NAME=FILE, for example X-Api-Key=/run/secrets/key',
      );
    }
    const nameProblem = problemOf(headerFields.name, name);
    if (nameProblem !== undefined) {
      throw new UsageError(`--http-header-file: the header name ${nameProblem}`);
    }
    const instead = { name: `the file of ${name}`, hint: isAFile };
    const text = readNamedFile({ option: httpHeaderFile.name, file, instead });
    const value = text.replace(/\r?\n$/, '');
    const problem = problemOf(headerFields.value, value);
    if (problem === undefined) return { name, value };
    throw new CommandError(`--http-header-file: the value in the file of ${name} ${problem}`);
  });
}

function problemOf(field: z.ZodType, text: string): string | undefined {
  return field.safeParse(text).error?.issues[0]?.message;
}
