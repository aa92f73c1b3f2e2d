import { z } from 'zod';

import type { Option } from '#model/option';
import { UsageError } from '#config/usage-error';
import { checkRedirectUri } from '#oauth/redirect-uris';
import { allScopes, isScope, type Scope } from '#model/scopes';
import { slugPattern, slugRule } from '#model/slug';
import type { EpochSeconds } from '#model/clock';
import { invalidField } from './refusal.ts';

/** The command option of a field. It is required if the schema requires the field and there is no fallback. */
export interface FieldOption extends Partial<Omit<Option, 'required'>> {
  /** Converts the option's text, which is '' for a flag. Default: the text itself. `name` is the option's name. @throws {UsageError} */
  readonly read?: (text: string, name: string) => unknown;
  /** Whether the option takes a person's e-mail address and the field their id. */
  readonly isPerson?: boolean;
}

/** One of the values that a field offers. */
export interface FieldChoice {
  readonly value: string;
  readonly text: string;
  readonly help?: string;
  /** Whether choosing it omits the field, as an empty value does. */
  readonly isOmitted?: boolean;
}

/** A choice that only a form has, such as which of two optional fields is given. */
export interface FormChoice {
  readonly name: string;
  readonly label: string;
  readonly choices: readonly FieldChoice[];
}

/** A field whose text is a list. */
interface Entries {
  readonly between: 'lines' | 'spaces' | 'spaces and commas';
  /** The subject of an error about one entry, before the entry itself. Default: the subject of the field. */
  readonly subject?: string;
}

/** A control that a person types into. */
interface TypedControl {
  readonly attributes?: Readonly<Record<string, string>>;
  readonly entries?: Entries;
  /** Converts the text to a value. Default: the text itself. */
  readonly read?: (text: string) => unknown;
  /** The text for a stored number. Default: its digits. */
  readonly show?: (value: number) => string;
  /** Replaces the error of the schema, if the form takes the value in another unit: `must be 1 to 4 kB`. */
  readonly rule?: string;
}

export type FieldControl = {
  /** The name of the control. Default: the name of the field. */
  readonly name?: string;
  readonly label: string;
  /** The subject of error messages, such as `The name`. Default: the label. */
  readonly subject?: string;
  readonly help?: string;
  /**
   * Whether the label says that it is optional. Default: as the schema says. `unmarked`: the label says nothing. `false`: the form requires
   * it although the operation does not.
   */
  readonly optional?: boolean | 'unmarked';
  /** The field is part of the input only while one of the values in `is` is chosen; `for-{part}` is its class in the style sheet. */
  readonly when?: {
    /** The name of the control, or a choice that is shown before the field. */
    readonly choice: string | FormChoice;
    readonly is: readonly string[];
    readonly part: string;
  };
} &
  /** One line; a password is never shown again, and keeps its spaces. */
  (
    | ({
        readonly kind: 'text';
        readonly type?: 'text' | 'url' | 'date' | 'password';
      } & TypedControl)
    | ({ readonly kind: 'textarea'; readonly rows?: number } & TypedControl)
    /** One of `choices`, initially `chosen` or the first; an empty value omits the field. */
    | {
        readonly kind: 'select' | 'radio';
        readonly chosen?: string;
        readonly choices: readonly FieldChoice[];
      }
    /** Any of `choices`. The form leaves the field out if there are none. */
    | { readonly kind: 'checkboxes'; readonly choices: readonly FieldChoice[] }
    /** Yes or no; the form joins consecutive fields with the same `group`. */
    | {
        readonly kind: 'checkbox';
        readonly group: { readonly name: string; readonly label: string };
      }
    /** Scopes, each in words. */
    | { readonly kind: 'scopes'; readonly chosen: readonly Scope[] }
    /** The parts of a server that may be used: everything, only tools that read, or some by name. */
    | { readonly kind: 'tools' }
  );

/**
 * The facts about a field that commands and forms need in addition to its schema. The registry is a separate one, because the
 * OpenAPI document contains everything that is stored with zod's `meta`.
 */
export const surfaces = z.registry<{
  readonly option?: FieldOption;
  readonly control?: FieldControl;
}>();

/** The same field, with its option and control, but optional. */
export function optional<Field extends z.ZodType>(field: Field): z.ZodOptional<Field> {
  return withSurfacesOf(field, field.optional());
}

/** The same field, with its option and control, but with this value if it is omitted. */
export function orDefault<Field extends z.ZodType>(
  field: Field,
  value: z.core.util.NoUndefined<z.output<Field>>,
): z.ZodDefault<Field> {
  return withSurfacesOf(field, field.default(value));
}

function withSurfacesOf<Variant extends z.ZodType>(field: z.ZodType, variant: Variant): Variant {
  const shown = surfaces.get(field);
  if (shown) surfaces.add(variant, shown);
  return variant;
}

/** The attributes of a control for a name or an id that is not text in a language. */
export const identifier = { spellcheck: 'false', autocapitalize: 'none', autocomplete: 'off' };
/** The attributes of a control for a slug. */
export const slugAttributes = { ...identifier, maxlength: '63' };

/** The control for the name of a new resource. */
export function nameControl(
  help: string,
  attributes: Readonly<Record<string, string>> = { autocomplete: 'off', maxlength: '200' },
): FieldControl {
  return { kind: 'text', label: 'Name', subject: 'The name', help, attributes };
}

const slug = z.string().regex(slugPattern, slugRule);

/** A line of text that a person typed, in any script, with at most `most` characters. */
export function words(most: number) {
  return z
    .string()
    .trim()
    .max(most)
    .regex(/^\P{Cc}*$/u, 'must not contain line breaks or other control characters');
}

/**
 * A whole number, which forms and queries send as text. `null` and an empty text are invalid and not converted to 0: a secret
 * that expires in 0 days would expire immediately.
 */
export function wholeNumber(least?: number, most?: number) {
  const number = (value: unknown) =>
    typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  const { MIN_SAFE_INTEGER, MAX_SAFE_INTEGER } = Number;
  return z.preprocess(
    number,
    z
      .int()
      .min(least ?? MIN_SAFE_INTEGER)
      .max(most ?? MAX_SAFE_INTEGER),
  );
}

/** Fields that have the same meaning in all operations. */
export const fields = {
  organization: slug.describe('The name of the organization'),
  server: slug.describe('The name of the server'),
  agent: slug.describe('The name of the agent'),
  slug,
  name: words(200).min(1),
  clientId: z.string().max(2000),
  keyId: z.string().max(100),
  scopes: z
    .array(z.enum(allScopes))
    .min(1)
    .transform((scopes) => allScopes.filter((scope) => scopes.includes(scope))),
  redirectUris: z
    .array(
      z
        .string()
        .max(2000)
        .superRefine((uri, context) => {
          const problem = checkRedirectUri(uri);
          if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
        }),
    )
    .max(50)
    .transform((uris) => [...new Set(uris)]),
  /** A number of days from now. */
  days: (least: number, most: number) => wholeNumber(least, most),
  /** The last day of something, instead of the number of days until then; see `expiry`. */
  expiresOn: z
    .string()
    .regex(/^\d{4}-\d\d-\d\d$/, 'is not a day, for example 2026-12-31')
    .optional()
    .describe('The last day in UTC, for example 2026-12-31; instead of a number of days')
    .register(surfaces, {
      control: {
        kind: 'text',
        type: 'date',
        label: 'Last day',
        help: 'It expires at the end of this day, in UTC.',
        optional: false,
        when: { choice: 'expiry', is: ['date'], part: 'date' },
      },
    }),
  at: z.int().describe('Seconds since 1970'),
  maybeAt: z.int().nullable().describe('Seconds since 1970'),
} as const;

/** The expiries that forms offer, by the number of days; `date` asks for `expiresOn`. */
export const expiryChoices: readonly FieldChoice[] = [
  ...['30', '90', '365'].map((days) => ({ value: days, text: `In ${days} days` })),
  { value: 'date', text: 'On a date', isOmitted: true },
];

/** The field for the number of days until something expires, at most `most`; never if omitted. `shown` is its select in forms. */
export function expiresInField(
  most: number,
  shown: {
    readonly help: string;
    readonly chosen: string;
    readonly choices: readonly FieldChoice[];
  },
) {
  const digits = String(most).length;
  return fields
    .days(1, most)
    .optional()
    .describe('Never if omitted')
    .register(surfaces, {
      option: {
        value: 'DAYS',
        doc: `in how many days it expires, up to ${most} (default: never)`,
        read: readDays(new RegExp(`^[1-9]\\d{0,${digits - 1}}$`)),
      },
      control: { ...shown, kind: 'select', name: 'expiry', label: 'Expires', subject: 'The end' },
    });
}

/**
 * When something expires: at the end of a day, after a number of days, or never. The day must not be past, nor further
 * away than `mostDays`.
 *
 * @throws {AdministrationRefusal} `invalid`
 */
export function expiry(
  {
    expiresInDays,
    expiresOn,
  }: Readonly<
    Partial<Record<'expiresInDays', number | undefined> & Record<'expiresOn', string | undefined>>
  >,
  mostDays: number,
  now: EpochSeconds,
): EpochSeconds | undefined {
  if (expiresOn === undefined) {
    return expiresInDays === undefined ? undefined : now + expiresInDays * secondsADay;
  }
  const end = Date.parse(`${expiresOn}T00:00:00Z`) / 1000 + secondsADay;
  if (Number.isNaN(end)) throw invalidField('expiresOn', 'is not a day, for example 2026-12-31');
  if (end <= now) throw invalidField('expiresOn', 'is in the past');
  if (end > now + mostDays * secondsADay) {
    throw invalidField('expiresOn', `is more than ${mostDays} days from now`);
  }
  return end;
}

const secondsADay = 86_400;

/** Reads a scope. @throws {UsageError} when it is unknown */
export function readScope(word: string, option: string): Scope {
  if (isScope(word)) return word;
  throw new UsageError(`--${option} '${word}' is unknown`, `scopes are ${allScopes.join(', ')}`);
}

/** Returns a function that reads a number of days. `pattern` matches the texts that are allowed. */
export function readDays(pattern: RegExp) {
  return (text: string, option: string): number => {
    if (pattern.test(text)) return Number(text);
    throw new UsageError(`--${option} '${text}' is not a number of days`);
  };
}

/** Reads an option that is on or off. @throws {UsageError} */
export function yesOrNo(text: string, option: string): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new UsageError(`--${option} '${text}' is neither yes nor no`);
}
