/** A refresh token as it stands in the secret store, and the client it was given to. */
export type RefreshRecord = { refreshToken: string; clientId: string };

/** The record in `text`; `undefined` when an older or foreign program wrote something else. */
export function parseRefreshRecord(text: string | undefined): RefreshRecord | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { refreshToken, clientId } = value ?? {};
    if (typeof refreshToken !== 'string' || typeof clientId !== 'string') return undefined;
    return { refreshToken, clientId };
  } catch {
    return undefined;
  }
}
