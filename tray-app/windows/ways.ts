import type { Way } from './add-step.ts';

/** Each way in words. */
export const ways: Record<Exclude<Way, 'pasted'>, { title: string; help: string }> = {
  person: {
    title: 'Sign in with the browser',
    help: 'Your own account, with your consent. Choose this unless you were given something else.',
  },
  client: { title: 'OAuth client', help: 'A client id and its secret, from the dashboard.' },
  api_key: { title: 'API key', help: 'A key that begins with mcp_, from the dashboard.' },
};
