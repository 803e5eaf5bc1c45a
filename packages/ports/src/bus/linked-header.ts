/** Header of a broadcast: ids of the links that also carry it (HOST-2). */
export const LINKED_HEADER = "Tutti-Linked";
