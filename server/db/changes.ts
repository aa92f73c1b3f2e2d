/** Change tokens of the database. */
export interface ChangeStore {
  /**
   * A token that changes whenever any process writes to the database. Very cheap. On PostgreSQL up to half a second old; on SQLite
   * it does not change with calls and used assertions that this process records.
   */
  changeToken(): string;

  /** Reads a current token of this kind, which also changes with every recorded call. Costs a query on PostgreSQL. */
  readonly newestChangeToken: () => Promise<string>;

  /** A token that changes with the data listed on pages of the organization, or of one server. */
  stateOf(organization: string, server: string | undefined): Promise<string>;
}
