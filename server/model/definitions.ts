/** The kinds of texts of a server that a model reads before it calls anything. Each is pinned. */
export const definitionKinds = ['tool', 'prompt', 'template', 'instructions'] as const;
export type DefinitionKind = (typeof definitionKinds)[number];

/** The name under which the instructions of a server are stored. A server has only one such text. */
export const instructionsName = 'instructions';

/**
 * The definition of something that a server offers. For a tool, a prompt or a resource template, it consists of all members except the name
 * or URI template, because any of them may influence an assistant or its host: `_meta`, for example, can name the page that a host shows
 * for a tool. For instructions, it is the text.
 */
export interface Definition {
  /** For a resource template, its URI template. */
  readonly name: string;
  /** SHA-256 of the definition, base64url. It does not depend on the order of an object's members. */
  readonly digest: string;
  /**
   * The definition as JSON for people to read, indented by two spaces and truncated if it is very long. Instructions are stored as they
   * are.
   */
  readonly text: string;
  /** For a tool, its annotations, as `annotationsText` writes them. */
  readonly annotations?: string | undefined;
}
