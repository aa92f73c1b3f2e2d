/** The sample library's tables, in the order in which they refer to one another. */
export const libraryTables = {
  branches: {
    about: 'The five buildings of the library',
    sql: `create table branches (
      id integer primary key,
      name text not null unique,
      street text not null,
      opened_on text not null
    ) strict`,
  },
  authors: {
    about: 'Who wrote the books',
    sql: `create table authors (
      id integer primary key,
      name text not null,
      country text not null,
      born integer not null
    ) strict`,
  },
  books: {
    about: 'Titles the library owns, each once however many copies there are',
    sql: `create table books (
      id integer primary key,
      title text not null,
      author_id integer not null references authors (id),
      genre text not null,
      language text not null,
      published integer not null,
      pages integer not null,
      isbn text not null unique
    ) strict`,
  },
  copies: {
    about: 'The single volumes on the shelves, each of one book, at one branch',
    sql: `create table copies (
      id integer primary key,
      book_id integer not null references books (id),
      branch_id integer not null references branches (id),
      acquired_on text not null
    ) strict`,
  },
  members: {
    about: 'People who may borrow',
    sql: `create table members (
      id integer primary key,
      name text not null,
      email text not null unique,
      branch_id integer not null references branches (id),
      joined_on text not null
    ) strict`,
  },
  loans: {
    about: 'Who borrowed which copy and when; returned_on is null while it is out',
    sql: `create table loans (
      id integer primary key,
      copy_id integer not null references copies (id),
      member_id integer not null references members (id),
      borrowed_on text not null,
      due_on text not null,
      returned_on text
    ) strict`,
  },
} as const;

export const libraryIndexes = [
  'create index books_by_author on books (author_id)',
  'create index copies_by_book on copies (book_id)',
  'create index loans_by_copy on loans (copy_id)',
  'create index loans_by_member on loans (member_id)',
  'create index loans_out on loans (due_on) where returned_on is null',
] as const;
