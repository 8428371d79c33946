// The ownership of a record, which decides who is notified when the record is taken away.

/** The assignee or, if the record is unassigned, its creator. */
export interface Ownership {
  assignedTo: string | null;
  /** Omitted if the record is assigned, because it does not matter then. */
  createdBy?: { kind: string; id: string; userId: string | null };
}
