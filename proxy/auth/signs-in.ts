import type { Connection } from '#config/connection';
import type { OAuthConnection } from './account.ts';

/** Whether there is anything to sign in to. */
export function signsIn(connection: Connection): connection is OAuthConnection {
  return connection.credentials.kind !== 'api_key';
}
