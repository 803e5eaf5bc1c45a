/** Header of a broadcast: the links that carry it too, by id (HOST-2). */
export const LINKED_HEADER = "Tutti-Linked";
