import { usualFormBytes } from './page-request.ts';
import { takeRawBodies } from '#http/body';
import type { FastifyInstance } from 'fastify';
import { accountRoutes } from './account-routes.ts';
import { memberSignInRoutes } from './member-sign-in-routes.ts';
import { invitationRoutes, linkRoutes } from './link-routes.ts';
import { pageErrors } from './page-errors.ts';

import { personGuard, visitorGuard } from './page-session.ts';
import { providerLogoutRoutes } from './provider-logout-routes.ts';
import { providerRoutes } from './provider-routes.ts';
import { passkeyRoutes, secondFactorRoutes } from './second-factor-routes.ts';
import { type PeopleRoutesOptions, signInRoutes } from './sign-in-routes.ts';

/** Every page for signing in and for managing one's own account. */
export function peopleRoutes(app: FastifyInstance, options: PeopleRoutesOptions): void {
  takeRawBodies(app, usualFormBytes);
  app.setErrorHandler(pageErrors(options.base, options.people));
  const person = personGuard(app, options.people, options);
  const visitor = visitorGuard(app, options);
  signInRoutes(app, visitor, options);
  linkRoutes(visitor);
  invitationRoutes({ person, visitor }, options);
  accountRoutes(person);
  secondFactorRoutes(person);
  passkeyRoutes(app, person, options);
  providerRoutes(app, options);
  memberSignInRoutes(visitor);
  providerLogoutRoutes(app, options);
}
