/** What a server takes and gives at most, and a count of its changes for who changes it next. */
export const serverSettings: readonly string[] = [
  // Null where nothing is limited: every call reads it.
  `alter table mcp_server add column limits text`,
  `alter table mcp_server add column revision integer not null default 0`,
];
