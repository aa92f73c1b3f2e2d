import { peopleStoresContract } from './people-stores.ts';
import { openDatabase } from '#support/open-database';

peopleStoresContract('SQLite', openDatabase);
