/** Why a file or folder can't be read, without the names of system calls; the caller says which one. */
export const fileProblem = (error: NodeJS.ErrnoException): string => WORDS.get(error.code ?? "") ?? error.message;

const WORDS: ReadonlyMap<string, string> = new Map([
  ["ENOENT", "there is no such file or folder"],
  ["EISDIR", "it is a folder, not a file"],
  ["ENOTDIR", "it is a file, not a folder"],
  ["EACCES", "this user may not read it"],
]);
