/*
 * The attributes that Latchkey stores. `/Schemas`, the names in filters and paths, and the reading of resources follow from these tables.
 * RFC 7643 §4 and §7. Other attributes that a directory sends are accepted but not stored.
 */

export const schemaIds = {
  user: 'urn:ietf:params:scim:schemas:core:2.0:User',
  group: 'urn:ietf:params:scim:schemas:core:2.0:Group',
  list: 'urn:ietf:params:scim:api:messages:2.0:ListResponse',
  error: 'urn:ietf:params:scim:api:messages:2.0:Error',
  schema: 'urn:ietf:params:scim:schemas:core:2.0:Schema',
  resourceType: 'urn:ietf:params:scim:schemas:core:2.0:ResourceType',
  configuration: 'urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig',
} as const;

/** An attribute. RFC 7643 §7 */
export interface Attribute {
  readonly name: string;
  readonly type: 'string' | 'boolean' | 'dateTime' | 'reference' | 'complex';
  readonly multiValued?: true;
  readonly required?: true;
  readonly caseExact?: true;
  readonly mutability?: 'readOnly' | 'immutable';
  readonly uniqueness?: 'server';
  readonly description: string;
  readonly subAttributes?: readonly Attribute[];
  readonly referenceTypes?: readonly string[];
}

const text = (name: string, description: string, more: Partial<Attribute> = {}): Attribute => ({
  name,
  type: 'string',
  description,
  ...more,
});

/** The attributes of every resource, besides those that its schema lists. RFC 7643 §3.1 */
const common: readonly Attribute[] = [
  text('id', 'Assigned by Latchkey', { caseExact: true, mutability: 'readOnly' }),
  text('externalId', 'The id in the directory', { caseExact: true }),
  {
    name: 'meta',
    type: 'complex',
    mutability: 'readOnly',
    description: 'About the resource',
    subAttributes: [
      text('resourceType', 'User or Group', { caseExact: true, mutability: 'readOnly' }),
      { name: 'created', type: 'dateTime', mutability: 'readOnly', description: 'When created' },
      {
        name: 'lastModified',
        type: 'dateTime',
        mutability: 'readOnly',
        description: 'When last changed',
      },
      text('location', 'The URL of the resource', { caseExact: true, mutability: 'readOnly' }),
    ],
  },
];

const ofUser: readonly Attribute[] = [
  text('userName', 'Unique in the organization; often the e-mail address', {
    required: true,
    uniqueness: 'server',
  }),
  {
    name: 'name',
    type: 'complex',
    description: 'The parts of the name',
    subAttributes: [
      text('formatted', 'The full name'),
      text('familyName', 'The family name'),
      text('givenName', 'The given name'),
      text('middleName', 'The middle name'),
      text('honorificPrefix', 'A title before the name'),
      text('honorificSuffix', 'A suffix after the name'),
    ],
  },
  text('displayName', 'The name to display'),
  text('title', 'The job title'),
  {
    name: 'active',
    type: 'boolean',
    description: 'Whether the person is a member of the organization',
  },
  {
    name: 'emails',
    type: 'complex',
    multiValued: true,
    description: 'E-mail addresses; a copy, which changes no account',
    subAttributes: [
      text('value', 'The address'),
      text('display', 'A name for the address'),
      text('type', 'Such as work or home'),
      { name: 'primary', type: 'boolean', description: 'Whether it is the preferred address' },
    ],
  },
];

const ofGroup: readonly Attribute[] = [
  text('displayName', 'The name of the group, unique in the organization', {
    required: true,
    uniqueness: 'server',
  }),
  {
    name: 'members',
    type: 'complex',
    multiValued: true,
    description: 'The members that the directory placed',
    subAttributes: [
      text('value', 'The id of a user', { caseExact: true, mutability: 'immutable' }),
      {
        name: '$ref',
        type: 'reference',
        mutability: 'immutable',
        referenceTypes: ['User'],
        description: 'The URL of the user',
      },
      text('display', 'The user name', { mutability: 'readOnly' }),
      text('type', 'User', { caseExact: true, mutability: 'immutable' }),
    ],
  },
];

export interface ResourceKind {
  readonly name: 'User' | 'Group';
  readonly endpoint: '/Users' | '/Groups';
  readonly schema: string;
  readonly description: string;
  readonly attributes: readonly Attribute[];
}

export const userKind: ResourceKind = {
  name: 'User',
  endpoint: '/Users',
  schema: schemaIds.user,
  description: 'A person as the directory describes them',
  attributes: ofUser,
};

export const groupKind: ResourceKind = {
  name: 'Group',
  endpoint: '/Groups',
  schema: schemaIds.group,
  description: 'A group of the organization',
  attributes: ofGroup,
};

const allAttributes = (kind: ResourceKind) => [...common, ...kind.attributes];

/** The attribute with this name, in any letter case. RFC 7643 §2.1 */
export function attributeOf(kind: ResourceKind, name: string): Attribute | undefined {
  return named(allAttributes(kind), name);
}

export function subAttributeOf(attribute: Attribute, name: string): Attribute | undefined {
  return named(attribute.subAttributes ?? [], name);
}

function named(among: readonly Attribute[], name: string): Attribute | undefined {
  const wanted = name.toLowerCase();
  return among.find((attribute) => attribute.name.toLowerCase() === wanted);
}

/** Returns the URL of a path below the SCIM URL of an organization. */
export type Location = (path: string) => string;

/** `/Schemas`. RFC 7643 §7 */
export function schemaResources(location: Location) {
  return [userKind, groupKind].map((kind) => ({
    schemas: [schemaIds.schema],
    id: kind.schema,
    name: kind.name,
    description: kind.description,
    attributes: kind.attributes.map(attributeResource),
    meta: { resourceType: 'Schema', location: location(`/Schemas/${kind.schema}`) },
  }));
}

function attributeResource(attribute: Attribute): Record<string, unknown> {
  const { name, type, description, subAttributes, referenceTypes } = attribute;
  return {
    name,
    type,
    multiValued: attribute.multiValued ?? false,
    description,
    required: attribute.required ?? false,
    caseExact: attribute.caseExact ?? false,
    mutability: attribute.mutability ?? 'readWrite',
    returned: 'default',
    uniqueness: attribute.uniqueness ?? 'none',
    ...(referenceTypes && { referenceTypes }),
    ...(subAttributes && { subAttributes: subAttributes.map(attributeResource) }),
  };
}

/** `/ResourceTypes`. RFC 7643 §6 */
export function resourceTypeResources(location: Location) {
  return [userKind, groupKind].map(({ name, endpoint, schema, description }) => ({
    schemas: [schemaIds.resourceType],
    id: name,
    name,
    endpoint,
    description,
    schema,
    schemaExtensions: [],
    meta: { resourceType: 'ResourceType', location: location(`/ResourceTypes/${name}`) },
  }));
}

/** `/ServiceProviderConfig`. RFC 7643 §5 */
export function configurationResource(location: Location, mostResults: number) {
  return {
    schemas: [schemaIds.configuration],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: mostResults },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      {
        type: 'oauthbearertoken',
        name: 'Bearer token',
        description: 'A token that an owner of the organization created',
        specUri: 'https://www.rfc-editor.org/info/rfc6750',
        primary: true,
      },
    ],
    meta: {
      resourceType: 'ServiceProviderConfig',
      location: location('/ServiceProviderConfig'),
    },
  };
}
