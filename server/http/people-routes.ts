import type { FastifyInstance } from 'fastify';

import { accountRoutes } from './account-routes.ts';
import { invitationRoutes } from './invitation-routes.ts';
import { linkRoutes } from './link-routes.ts';
import { takeForms } from './page-form.ts';
import { pageErrors } from './page-errors.ts';
import { passkeyRoutes } from './passkey-routes.ts';
import type { PeopleRoutesOptions } from './people-ports.ts';
import { providerRoutes } from './provider-routes.ts';
import { secondFactorRoutes } from './second-factor-routes.ts';
import { signInRoutes } from './sign-in-routes.ts';

/** Every page by which people show who they are and look after that. */
export function peopleRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  takeForms(app);
  app.setErrorHandler(pageErrors(options.base, options.people));
  signInRoutes(app, options);
  linkRoutes(app, options);
  invitationRoutes(app, options);
  accountRoutes(app, options);
  secondFactorRoutes(app, options);
  passkeyRoutes(app, options);
  providerRoutes(app, options);
}
