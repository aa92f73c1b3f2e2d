/** The status of a refusal of the HTTP framework's own, such as 413 for a body over the limit. */
export function frameworkStatus(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined;
  const { statusCode } = error;
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500
    ? statusCode
    : undefined;
}

/** Whether the database could not be asked. `node:sqlite` marks its errors with this code. */
export function isStoreFault(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR';
}
