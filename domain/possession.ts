// Whose a record is, which decides who hears of it when it is taken from them.

/** Of whom it is assigned to or, unassigned, of who created it. */
export interface Possession {
  assignedTo: string | null;
  /** Left out where it does not matter, since the record is assigned. */
  createdBy?: { kind: string; id: string; userId: string | null };
}
