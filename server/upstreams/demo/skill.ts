/**
 * The demo's skill: `SKILL.md` of the folder `reading-the-library`. It is text in the program, so that
 * a bundle of one file has it too.
 */
export const readingTheLibrary = `---
name: reading-the-library
description: How to answer questions about the sample lending library (books, authors, copies, members, loans) with the tools list_tables, describe_table and query. Use it before writing SQL for this server.
---

# Reading the library

A lending library with five branches in one SQLite database that can only be read.

## The way to an answer

1. \`describe_table\` for each table you will use: columns, keys and three rows.
2. One \`query\` with one \`SELECT\` (or \`WITH … SELECT\`). Count and group in SQL, not afterwards.
3. Say what you counted: titles (\`books\`) or volumes (\`copies\`), loans or borrowers.

## How the tables are related

    branches ← copies → books → authors
    branches ← members ← loans → copies

- A title is one row of \`books\`, however many volumes of it there are in \`copies\`.
- A loan is of a *copy*. From a loan to its title: \`loans → copies → books\`.
- A loan is out while \`returned_on is null\`; it is overdue when also \`due_on < '2026-10-30'\`, the last
  day in the data. Use that day, not \`date('now')\`.
- Dates are text, \`YYYY-MM-DD\`, so they compare and sort as they are; \`substr(borrowed_on, 1, 7)\` is the month.
- \`published\` and \`born\` are years. Titles are not unique: group by \`books.id\`.

## Limits

- 200 rows unless \`limit\` says more (1,000 at most); \`truncated\` is true when there were more.
- 5 seconds a query, 256 KiB an answer. Join on \`id\` columns, which are indexed.
- Writing, \`PRAGMA\`, \`ATTACH\` and more than one statement are refused.

## Examples

The ten titles borrowed most often:

    select b.title, a.name as author, count(*) as loans
    from loans l join copies c on c.id = l.copy_id join books b on b.id = c.book_id
    join authors a on a.id = b.author_id
    group by b.id order by loans desc, b.title limit 10

What is overdue, by branch:

    select br.name as branch, count(*) as overdue
    from loans l join copies c on c.id = l.copy_id join branches br on br.id = c.branch_id
    where l.returned_on is null and l.due_on < '2026-10-30'
    group by br.id order by overdue desc
`;
