/** No event takes the place of another: `insert or replace` removes what is in its way past the trigger on removal. */
export const auditInsertions: readonly string[] = [
  // A rowid that is not given is -1 here.
  `create trigger audit_event_is_new before insert on audit_event
    when exists (
      select 1 from audit_event
      where id = new.id or sequence = new.sequence or (new.rowid > 0 and rowid = new.rowid)
    )
    begin select raise(abort, 'an audit event is never replaced'); end`,
];
