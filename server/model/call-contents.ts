import { z } from 'zod';

/**
 * Whether and how the arguments and results of calls to a server are stored, as in the database. An owner of its organization chooses
 * these settings.
 */
export const contentSettingsSchema = z.object({
  arguments: z.boolean(),
  results: z.boolean(),
  /** The longest JSON text that is stored of arguments, and of a result; the rest is cut off. */
  limitBytes: z.int(),
  /** How many days arguments and results are kept. */
  days: z.int(),
  /** An owner deleted the arguments and results stored before this time, in milliseconds since 1970. */
  deletedBeforeMs: z.int().optional(),
});

export type ContentSettings = Readonly<z.infer<typeof contentSettingsSchema>>;

export const contentBounds = {
  limitBytes: { least: 256, most: 65_536, default: 16_384 },
  days: { least: 1, most: 365, default: 7 },
} as const;

/** Nothing is stored unless an owner wants it. */
export const noContents: ContentSettings = {
  arguments: false,
  results: false,
  limitBytes: contentBounds.limitBytes.default,
  days: contentBounds.days.default,
};

/** The parts of a call that are stored: what the caller sent, and what the server answered. */
export const contentKinds = ['arguments', 'result'] as const;
export type ContentKind = (typeof contentKinds)[number];

/**
 * A sentence for the people whose calls are concerned; `undefined` if nothing is stored.
 *
 * @param organization its name or title
 */
export function storedSentence(
  organization: string,
  settings: ContentSettings | undefined,
): string | undefined {
  const what = storedWords(settings);
  if (!settings || what === undefined) return undefined;
  return `${organization} stores ${what} of the calls to this server for ${daysWords(settings.days)}. Only people there with the Auditor right can read them.`;
}

/** What is stored, as the object of a sentence; `undefined` if nothing is. */
function storedWords(settings: ContentSettings | undefined): string | undefined {
  if (settings?.arguments && settings.results) return 'the arguments and results';
  if (settings?.arguments) return 'the arguments';
  return settings?.results ? 'the results' : undefined;
}

function daysWords(days: number): string {
  return days === 1 ? '1 day' : `${days} days`;
}

/** How many bytes are copied in addition, because a value may begin with members that are not stored, such as `_meta`. */
const spareBytes = 16_384;

/** The beginning of a JSON value, in memory of its own. */
export interface KeptValue {
  readonly bytes: Buffer;
  /** Whether it is the whole value. */
  readonly isWhole: boolean;
}

/** Bounds the memory of arguments and results that wait to be written. When it is full, they are not stored, but calls go on. */
export class ContentMemory {
  readonly #maxBytes: number;
  #bytes = 0;
  #refused = 0;

  constructor(maxBytes = 32 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) {
      this.#refused += 1;
      return false;
    }
    this.#bytes += bytes;
    return true;
  }

  letGo(bytes: number): void {
    this.#bytes -= bytes;
  }

  get heldBytes(): number {
    return this.#bytes;
  }

  /** How many arguments and results found no room so far. */
  get refused(): number {
    return this.#refused;
  }
}

/** The arguments and the result of one call, from the call until they are written. Their memory counts until `letGo`. */
export class CallContents {
  /** The server that stores them. */
  readonly targetId: string;
  readonly settings: ContentSettings;
  readonly #memory: ContentMemory;
  readonly #values = new Map<ContentKind, KeptValue>();
  #secrets: readonly string[] = [];

  constructor(targetId: string, settings: ContentSettings, memory: ContentMemory) {
    this.targetId = targetId;
    this.settings = settings;
    this.#memory = memory;
  }

  /** Copies the beginning of the value between two places of a message. */
  keep(
    kind: ContentKind,
    message: Buffer,
    { start, end }: { readonly start: number; readonly end: number },
  ): void {
    const most = 2 * this.settings.limitBytes + spareBytes;
    const length = Math.min(end - start, most);
    if (this.#values.has(kind) || !this.#memory.take(length)) return;
    // `Buffer.from` takes a slice of a shared pool, which would keep the whole pool in memory.
    const bytes = Buffer.allocUnsafeSlow(length);
    message.copy(bytes, 0, start, start + length);
    this.#values.set(kind, { bytes, isWhole: length === end - start });
  }

  /** Sets the secrets that the call was sent with, which must not be stored. */
  hide(secrets: readonly string[]): void {
    this.#secrets = secrets;
  }

  get secrets(): readonly string[] {
    return this.#secrets;
  }

  get values(): readonly (readonly [ContentKind, KeptValue])[] {
    return [...this.#values];
  }

  /** Frees the memory of the values, after they were written or dropped. */
  letGo(): void {
    for (const { bytes } of this.#values.values()) this.#memory.letGo(bytes.length);
    this.#values.clear();
  }
}
