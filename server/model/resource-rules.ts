import { ResourceUri, UriTemplate } from './resource-uri.ts';

/** The URIs and URI templates that a rule is about. */
export class ResourceNames {
  readonly #uris: ReadonlySet<string>;
  readonly #templates: readonly UriTemplate[];
  #forms: ReadonlySet<string> | undefined;

  constructor(uris: Iterable<string>, templates: Iterable<string>) {
    this.#uris = new Set(uris);
    this.#templates = [...templates].map((text) => new UriTemplate(text));
  }

  /** Whether every upstream reads the URI as one of them. */
  cover(uri: ResourceUri): boolean {
    return (
      this.#uris.has(uri.text) || this.#templates.some((template) => template.matchesNarrowly(uri))
    );
  }

  /** Whether some upstream may read the URI as one of them. */
  mayCover(uri: ResourceUri): boolean {
    if (this.#uris.size === 0 && this.#templates.length === 0) return false;
    this.#forms ??= new Set([...this.#uris].flatMap((text) => new ResourceUri(text).forms));
    const { forms } = uri;
    if (forms.length === 0 || forms.some((form) => this.#forms?.has(form))) return true;
    return this.#templates.some((template) => template.matchesWidely(uri));
  }
}

/** Rules for URIs without a rule of their own. */
export class ResourceRules<Who> {
  readonly #templates: readonly { readonly template: UriTemplate; readonly who: Who }[];
  /** The rules of URIs, by the forms in which upstreams may read them. */
  readonly #byForm = new Map<string, Who[]>();

  constructor(uris: Iterable<readonly [string, Who]>, templates: Iterable<readonly [string, Who]>) {
    this.#templates = [...templates].map(([text, who]) => ({
      template: new UriTemplate(text),
      who,
    }));
    for (const [text, who] of uris) {
      for (const form of new ResourceUri(text).forms) {
        const others = this.#byForm.get(form);
        if (others) others.push(who);
        else this.#byForm.set(form, [who]);
      }
    }
  }

  /**
   * The rule that decides about a URI, the first of these: a rule that denies another URI which some upstream may read as the same; a rule of a
   * template that denies; a rule of a template that allows; none. `isClosing` says whether a rule denies access.
   */
  deciding(uri: ResourceUri, isClosing: (who: Who) => boolean): Who | undefined {
    if (this.#byForm.size === 0 && this.#templates.length === 0) return undefined;
    const { forms } = uri;
    const same =
      forms.length === 0
        ? [...this.#byForm.values()].flat()
        : forms.flatMap((form) => this.#byForm.get(form) ?? []);
    const closing = same.find(isClosing);
    if (closing !== undefined) return closing;
    let opening: Who | undefined;
    for (const { template, who } of this.#templates) {
      // A template that does not match widely does not match narrowly either.
      if (!template.matchesWidely(uri)) continue;
      if (isClosing(who)) return who;
      opening ??= template.matchesNarrowly(uri) ? who : undefined;
    }
    return opening;
  }
}
