import type { z } from 'zod';

import type { Organization } from '#organizations/organization-store';
import type { Role } from '#people/role';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import type { Permission } from './permission.ts';

/** Where an operation stands in the admin API, below `/api/admin`: `/organizations/{organization}/servers`. */
export interface OperationRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** A name in braces is a field of the input. */
  readonly path: string;
  /** For what makes something: where that is then, its braces filled from input and output. */
  readonly made?: string;
}

interface OperationFacts<Input extends z.ZodObject, Output extends z.ZodObject> {
  /** Also the action in the audit log: `client.create`. */
  readonly name: string;
  /** One sentence without a period. */
  readonly doc: string;
  /** `undefined` for what is only there at the command line. What is a GET only reads. */
  readonly route?: OperationRoute;
  readonly input: Input;
  readonly output: Output;
  /** What the audit log calls what it is about: `client:client_…`. The output is there once it is done. */
  readonly target?: (input: z.output<Input>, output?: z.output<Output>) => string | undefined;
}

/** Within one organization, which the input's `organization` names. */
export interface OrganizationOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'organization';
  readonly permission: Permission;
  /**
   * Asks others, which takes a while, before the transaction of `run` begins and for who may do this: ports for `run`
   * that have the answers.
   */
  readonly ahead?: (
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly actor: Actor },
    ports: AdministrationPorts,
  ) => Promise<Partial<Pick<AdministrationPorts, 'upstreamSetup' | 'webhookSetup'>>>;
  run(
    input: z.output<Input>,
    at: { readonly organization: Organization; readonly role: Role; readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** Of the actor alone, or of the whole installation; `run` itself says who may. */
export interface PersonalOperation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends OperationFacts<Input, Output> {
  readonly within: 'person';
  run(
    input: z.output<Input>,
    at: { readonly actor: Actor },
    ports: AdministrationPorts,
  ): Promise<z.output<Output>>;
}

/** One thing that administrators do, the same from a page, the admin API and the command line. */
export type Operation<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> = OrganizationOperation<Input, Output> | PersonalOperation<Input, Output>;

/** Declares an operation within an organization, and lets the compiler work out its types. */
export function organizationOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<OrganizationOperation<Input, Output>, 'within'>,
): OrganizationOperation<Input, Output> {
  return { ...facts, within: 'organization' };
}

/** Declares an operation of the actor's own. */
export function personalOperation<Input extends z.ZodObject, Output extends z.ZodObject>(
  facts: Omit<PersonalOperation<Input, Output>, 'within'>,
): PersonalOperation<Input, Output> {
  return { ...facts, within: 'person' };
}
